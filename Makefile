# The commands of the README. Each is a script of its own, so that it can be read and run without make.

.DEFAULT_GOAL := help
.PHONY: help up release docs test upgrade-test generators clients api-test check advisories bench sqlx openapi

help: ## What can be done here
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

up: ## Run everything on this machine, in the foreground; Ctrl-C stops it
	@deploy/up

release: ## Build the programs for a server, as fast as they get
	@deploy/release

docs: ## Build the documentation's site, and check its links
	@.ci/docs

test: ## Every check and every test, unattended
	@.ci/test

upgrade-test: ## Run the version before (SVC_PREVIOUS) beside this one, there and back
	@.ci/upgrade

generators: ## Have ten generators build sites, and compare each address and link with nginx and wrangler
	@.ci/generators

clients: ## Run every client of docs/clients.md against the gateway, with long sessions; installs two gigabytes of them
	@.ci/clients

api-test: ## Judge the API by its own description with eight times as many requests as make test
	@.ci/api

check: ## Format, migrations, dependencies, lints, documentation: before a commit
	@.ci/check

advisories: ## Ask whether a dependency has a known vulnerability; needs github.com
	@.ci/advisories

bench: ## Measure against other servers and AI gateways; rewrites the tables of bench/README.md
	@bench/run

sqlx: ## Refresh the offline data of the SQL macros (.sqlx) after a query or a migration changed
	@.ci/sqlx --write

openapi: ## Rewrite openapi.json after an endpoint or a type of the API changed
	@SQLX_OFFLINE=true SVC_WRITE_OPENAPI=1 cargo test --quiet --package admin --lib the_committed_document_is_current
