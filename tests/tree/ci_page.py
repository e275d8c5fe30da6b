#!/usr/bin/env python3
"""Checks docs/how-to/ci.md: its YAML parses, and its commands use existing verbs and flags. Skipped without PyYAML."""

import re
import shlex
import sys

import tree

PAGE = "docs/how-to/ci.md"
SURFACE = "tests/golden/surface.txt"
# A command ends at a shell separator or at the end of the line.
COMMAND = re.compile(r"(?:^|[\s`])trainctl ((?:[^|&;`\n\"']|\"[^\"]*\"|'[^']*')+)", re.M)


def blocks(text, language):
    return re.findall(rf"^```{language}(?: [^\n]*)?\n(.*?)^```", text, re.M | re.S)


def surface(text):
    """Returns {verb: its flags}; the key "*" has the flags of every verb."""
    verbs = {}
    for line in text.splitlines():
        if not line or line.startswith("#") or "=" in line:
            continue
        words = line.split()
        flags = [word for word in words if word.startswith("--")]
        verb = " ".join(word for word in words if not word.startswith("--"))
        verbs.setdefault(verb, set()).update(flags)
    return verbs


def check_command(command, verbs):
    words = shlex.split(command)
    verb = " ".join(words[:2]) if " ".join(words[:2]) in verbs else words[0]
    if verb not in verbs:
        return [f"{PAGE}: 'trainctl {command.strip()}': there is no verb '{verb}'"]
    known = verbs[verb] | verbs.get("*", set())
    flags = [word.split("=")[0] for word in words if word.startswith("--")]
    return [f"{PAGE}: 'trainctl {verb}' has no flag {flag}" for flag in flags if flag not in known]


def scripts_of(value):
    """Returns every string of a workflow, which includes all shell scripts."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in scripts_of(item)]
    if isinstance(value, list):
        return [text for item in value for text in scripts_of(item)]
    return [value] if isinstance(value, str) else []


def check_gitlab(document):
    """Checks that the default branch saves the baseline, that a merge request reads it, and that neither does both."""
    jobs = {name: job for name, job in document.items() if isinstance(job, dict) and "script" in job}
    violations = []
    for name, job in jobs.items():
        policy, text = job.get("cache", {}).get("policy"), "\n".join(job["script"])
        is_request = any("== \"merge_request_event\"" in rule.get("if", "") for rule in job.get("rules", []))
        if policy != ("pull" if is_request else "push"):
            violations.append(f"{PAGE}: the job '{name}' has the cache policy {policy}")
        if ("--save" in text) == is_request or ("--baseline" in text) != is_request:
            violations.append(f"{PAGE}: the job '{name}' {'saves' if is_request else 'reads'} a baseline")
        if is_request and "no baseline" not in text:
            violations.append(f"{PAGE}: the job '{name}' does not pass where there is no baseline")
    if len(jobs) != 2:
        violations.append(f"{PAGE}: a job that saves the baseline and one that reads it were expected for GitLab")
    return violations


def check(root):
    import yaml
    page = tree.read(root, PAGE)
    verbs = surface(tree.read(root, SURFACE))
    violations, texts = [], blocks(page, "console")
    for number, block in enumerate(blocks(page, "yaml"), 1):
        try:
            document = yaml.safe_load(block)
            texts += scripts_of(document)
            violations += check_gitlab(document) if "jobs" not in document else []
        except yaml.YAMLError as error:
            violations.append(f"{PAGE}: its YAML block {number} cannot be read: {error}")
    commands = [command for text in texts for command in COMMAND.findall(text.replace("\\\n", " "))]
    if len(commands) < 4:
        violations.append(f"{PAGE}: only {len(commands)} commands were found")
    for command in commands:
        violations += check_command(command, verbs)
    return violations


if __name__ == "__main__":
    try:
        import yaml  # noqa: F401
    except ImportError:
        print("skipped: no PyYAML (scripts/setup --checks)")
        sys.exit(4)
    tree.run("ci_page", check)
