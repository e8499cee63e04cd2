"""Prints which links of a site lead nowhere: dead_links.py CSV LEAST, of what `check_links.py` has printed.

Ends with 1 when there are any, and when fewer than LEAST were looked at: a checker that finds no link has checked nothing.
"""

import csv
import sys

path, least = sys.argv[1:]
with open(path, encoding="utf-8", newline="") as file:
    links = list(csv.DictReader((line for line in file if not line.startswith("# ")), delimiter=";"))
dead = [link for link in links if link["valid"] == "False"]
for link in dead:
    print(f"    {link['parentname']} leads to {link['urlname']}: {link['result']}")
if len(links) < int(least):
    print(f"    only {len(links)} links were looked at")
sys.exit(1 if dead or len(links) < int(least) else 0)
