#!/usr/bin/env python3
"""Checks that docs/config.md agrees with `trainctl schema`: every key, its type, default and description.

usage: config_page.py TRAINCTL docs/config.md [--write]"""

import json
import subprocess
import sys

import tree

HEAD = """# Every key of the experiment file

This page is generated from the descriptions with which the program checks the file. `trainctl explain KEY` shows one key, and `trainctl
schema` prints all keys as a JSON Schema. If no option of a stage is required, its name alone can be written in place of the stage. Any value
can refer to another one: `${optimizer.lr}`.
"""


NULL = {"type": "null"}  # every key may be `~`; the page shows that only where it is the default


def bounds(node):
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    return ", ".join(f"{sign} {node[key]}" for key, sign in signs.items() if key in node)


def kind_of(node):
    """Returns the short text for a type."""
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        return "" if name == "reference" else f"[{name}](#{name})"
    if "anyOf" in node:
        forms = [form for form in node["anyOf"] if form != NULL or "default" not in node]
        return " or ".join(filter(None, map(kind_of, forms)))
    if "enum" in node:
        return ", ".join(f"`{choice}`" for choice in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    if node.get("type") == "array":
        exactly = f"{node['minItems']} " if node.get("minItems") == node.get("maxItems") and "minItems" in node else ""
        return f"list of {exactly}{kind_of(node['items'])}"
    if node.get("type") == "object" and isinstance(node.get("additionalProperties"), dict):
        return f"map of {kind_of(node['additionalProperties'])}"
    if node.get("type") == "object":
        return "section"
    if node.get("type") == "null":
        return "`~`"
    limits = bounds(node)
    return node["type"] + (f" {limits}" if limits else "")


def default_of(key, node, required):
    if key in required:
        return "required"
    return f"`{json.dumps(node['default'])}`" if "default" in node else ""


def rows(node, definitions, prefix=""):
    """Returns the table rows of an object; the keys of a section follow the section with its name as a prefix."""
    found = []
    for key, child in node.get("properties", {}).items():
        if key == "type" and "const" in child:
            continue
        kind, section = section_of(child, definitions)
        required = node.get("required", [])
        if key in required:
            child = {**child, "anyOf": [form for form in child["anyOf"] if form != NULL]}
        shown = kind or ("section" if section else kind_of(child))
        default = "" if section else default_of(key, child, required)
        cells = [f"`{prefix}{key}`", shown, default, child.get("description", "")]
        found.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        if section:
            found += rows(section, definitions, f"{prefix}{key}.")
    return found


def section_of(node, definitions):
    """Returns (link to a kind of stage or "", the object for a key): a stage may have keys in addition to those of its type."""
    for form in node.get("anyOf", [node]):
        if form.get("type") == "object" and "properties" in form:
            return "", form
        stages = [option for option in form.get("anyOf", []) if "properties" in option]
        if stages:
            name = stages[0]["properties"]["type"]["const"]
            kind, own = next((key.split(".")[0], value) for key, value in definitions.items() if key.endswith(f".{name}"))
            others = {key: value for key, value in stages[0]["properties"].items() if key not in own["properties"]}
            return f"[{kind}](#{kind}) and", {"properties": others}
    return "", None


def table(node, definitions):
    lines = rows(node, definitions)
    return ["", "| key | what | default | |", "| --- | --- | --- | --- |", *lines] if lines else []


def page(schema):
    definitions = schema["$defs"]
    whole = definitions["whole"]
    whole["properties"]["extends"] = schema["properties"]["extends"]
    lines = HEAD.splitlines() + ["", "## The file", *table(whole, definitions)]
    kinds = [name for name in definitions if "." not in name and name not in ("reference", "whole", "overlay")]
    for kind in kinds:
        lines += ["", f"## {kind}"]
        for name, node in definitions.items():
            if name.startswith(f"{kind}."):
                lines += ["", f"### {name.removeprefix(kind + '.')}", "", node.get("description", ""), *table(node, definitions)]
    return "\n".join(lines) + "\n"


def check(program, path, write):
    asked = subprocess.run([program, "schema"], capture_output=True, text=True, check=True)
    return tree.compare_page(path, page(json.loads(asked.stdout)), f"{program} schema", write)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    tree.finish("config_page", check(sys.argv[1], sys.argv[2], sys.argv[3:] == ["--write"]))
