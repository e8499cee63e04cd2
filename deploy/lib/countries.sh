# shellcheck shell=bash
# Fetches a database of countries by address for the statistics, from npm: once, and checked. Without it, every country is XX.

# The package is CC0. Its integrity is the registry's, in hexadecimal.
readonly COUNTRIES_PACKAGE=geo-whois-asn-country-mmdb
readonly COUNTRIES_VERSION=2.3.2026061719
readonly COUNTRIES_SHA512=c5e9810cd425e260980ee55ba9ede32862ac543ca464691fbde6e1b4e87fdd51\
8b69dabcbeca7bb7ba27b69314b77847eec0064f478b0f227df5257ed306b166
readonly COUNTRIES_REGISTRY=${SVC_NPM_REGISTRY:-https://registry.npmjs.org}

# fetch_countries FOLDER: sets COUNTRIES_FILE to the database in it, or to nothing when there is none.
fetch_countries() {
  COUNTRIES_FILE=$1/countries-$COUNTRIES_VERSION.mmdb
  [[ -f $COUNTRIES_FILE ]] || download_countries "$1" || {
    say "the countries of visitors are not known: $COUNTRIES_REGISTRY gave no $COUNTRIES_PACKAGE $COUNTRIES_VERSION"
    COUNTRIES_FILE=
  }
}

download_countries() {
  local archive=$1/countries.tgz.new path=@ip-location-db/$COUNTRIES_PACKAGE/-/$COUNTRIES_PACKAGE-$COUNTRIES_VERSION.tgz
  say "fetching the countries of addresses"
  curl --silent --fail --location --connect-timeout 5 --max-time 60 --max-filesize 50000000 \
    --output "$archive" "$COUNTRIES_REGISTRY/$path" &&
    sha512sum --check --status <<<"$COUNTRIES_SHA512  $archive" &&
    tar --extract --gzip --to-stdout --file "$archive" "package/${COUNTRIES_PACKAGE%-mmdb}.mmdb" >"$1/countries.new" &&
    rm -f "$1"/countries-*.mmdb &&
    mv "$1/countries.new" "$COUNTRIES_FILE"
  local status=$?
  rm -f "$archive" "$1/countries.new"
  return "$status"
}
