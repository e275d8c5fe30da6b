"""Tests the command line: help, wrong commands, standard output, completion, and the verbs that describe the program."""

import json
import os
import re
import shlex
import subprocess
import unittest

from support import BINARY, SOURCE, Front, main


class CommandLine(Front):
    def shell(self, command):
        """Returns what a shell command prints on stdout."""
        return subprocess.run(["sh", "-c", command], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300).stdout

    def fish(self):
        return self.program("completion", "fish").out

    def flags(self):
        """Returns every verb ("data hash") with each of its flags, read from the completion script."""
        found = []
        for line in self.fish().splitlines():
            match = re.search("-n '(.*?)' -l ([^ ]*)", line)
            if match:
                verb = match[1].replace("__fish_seen_subcommand_from ", "").replace("; and", "").replace(" check", "")
                found.append((verb, "--" + match[2]))
        return found


def optimizers():
    """Returns the number of optimizers in stages.def."""
    return len(re.findall(r"^STAGE\(optimizer,", (SOURCE / "lib/stages/stages.def").read_text(), re.M))


class Describes(CommandLine):
    def test_without_a_verb_the_help_is_printed(self):
        text = self.program(code=0).out
        self.assertEqual(text, self.program("--help").out)
        self.check_golden("cli/help.txt", text)

    def test_each_verb_has_a_help(self):
        verbs = list(dict.fromkeys(verb for verb, _ in self.flags()))
        self.assertGreaterEqual(len(verbs), 4)
        for verb in verbs:
            self.check_golden(f"cli/help_{verb.replace(' ', '_')}.txt", self.program(*verb.split(), "--help", code=0).out)

    def test_version_names_the_commit_and_the_libraries(self):
        version = self.program("version").out
        self.assert_starts(version, "trainctl 0.")
        self.assert_has(version, ", SQLite 3.")
        self.assertEqual(self.program("--version").out, version.splitlines(keepends=True)[0])
        document = self.program("version", "--json").json
        self.assertEqual(document["schema"], "trainctl.version/2")
        for library in ("CLI11", "fmt", "nlohmann_json", "yaml-cpp", "SQLite"):
            self.assertNotEqual(document["libraries"][library], "")

    def test_list_names_every_stage_with_its_summary(self):
        self.check_golden("cli/list.txt", self.program("list").out)
        kinds = self.program("list", "optimizer", "--json").json["kinds"]
        self.assertEqual(len(kinds), 1)
        self.assertEqual(len(kinds["optimizer"]), optimizers())

    def test_explain_gives_type_default_bounds_and_meaning_of_a_key(self):
        keys = ("optimizer.adam.lr", "trainer.limit_train_batches", "dataset.mnist.root", "early_stopping.mode", "loader.num_workers")
        self.check_golden("cli/explain.txt", "".join(self.program("explain", key).out for key in keys))
        self.assertEqual(self.program("explain", "optimizer.adam.lr", "--json").json["schema"], "trainctl.explain/2")
        unknown = self.refused("explain", "optimizer.adam.lrr")
        self.assert_starts(unknown, "error: ")
        self.assert_has(unknown, "optimizer.adam.lr")

    def test_schema_prints_that_of_the_file_a_kind_or_a_stage(self):
        sgd = self.program("schema", "optimizer/sgd").json
        sgd.pop("$defs")
        self.check_golden("cli/schema_sgd.json", json.dumps(sgd, indent=2, ensure_ascii=False) + "\n")
        file = self.program("schema").json
        self.assertEqual(file["$schema"], "https://json-schema.org/draft/2020-12/schema")
        self.assertIs(file["additionalProperties"], False)
        self.assertIn("trainer", file["properties"])
        kind = self.program("schema", "optimizer", "--json").json
        self.assertEqual(kind["schema"], "trainctl.schema/2")
        self.assertEqual(len(kind["json_schema"]["oneOf"]), optimizers())
        self.assert_has(self.refused("schema", "optimizer/adan", code=None), "did you mean 'adam'?")
        self.assert_has(self.refused("schema", "optimizr", code=None), "did you mean 'optimizer'?")

    def test_show_config_prints_the_resolved_experiment_with_the_origin_of_each_value(self):
        def show(*words):
            return self.program("show-config", *words, folder=SOURCE / "configs")
        self.check_golden("cli/show_config.txt", show("quickstart.yaml", "trainer.max_epochs=3").out)
        self.check_golden("cli/show_config_minimal.txt", show("--minimal", "quickstart.yaml").out)
        self.check_golden("cli/show_config_full.txt", show("--full", "quickstart.yaml").out)
        document = show("-c", "quickstart.yaml", "seed=7", "--json").json
        self.assertEqual(document["schema"], "trainctl.config/2")
        self.assertEqual(document["config"]["seed"], 7)
        origins = [document["origins"][key] for key in ("seed", "loader.batch_size", "loader.shuffle")]
        self.assertEqual(origins, ["override", "quickstart.yaml:17", "default"])

    def test_show_config_takes_one_config(self):
        self.assert_has(self.refused("show-config", "a.yaml", "b.yaml"), "'b.yaml' must be an override")
        self.refused("show-config", "a.yaml", "--full", "--minimal")

    def test_doctor_names_what_it_checked_and_what_is_missing(self):
        document = self.program("doctor", "--json", code=11, TRAINCTL_TORCH_ROOT="/no/such/torch", OMP_WAIT_POLICY="ACTIVE").json
        self.assertEqual((document["schema"], document["health"]), ("trainctl.doctor/2", "broken"))
        findings = {one["name"]: one for one in document["findings"]}
        self.assertLessEqual({"system", "cpu", "memory", "disk", "limits", "engine", "libtorch", "gpu", "threads", "data", "images",
                              "opencv", "arrow", "sentencepiece", "libcurl", "reading"}, set(findings))
        self.assertEqual(findings["libtorch"]["health"], "broken")
        self.assert_has(findings["libtorch"]["hint"], "scripts/setup")
        self.assertEqual(findings["threads"]["health"], "degraded")
        self.assert_starts(findings["images"]["found"], "libjpeg-turbo ")
        self.assert_has(findings["images"]["found"], "libpng 1.", "zlib 1.")
        self.assert_starts(findings["reading"]["found"], "io_uring is ")
        self.assert_starts(findings["sweeps"]["found"], "SQLite 3.")
        libraries = document["libraries"]
        self.assertLessEqual({"SQLite", "libjpeg-turbo", "libpng", "zlib", "opencv", "arrow", "sentencepiece", "libcurl"}, set(libraries))
        self.assertIsInstance(libraries["libpng"], str)
        text = self.program("doctor").out
        self.assert_starts(text, "trainctl 0.")
        self.assert_has(text, "libtorch")
        for library in ("opencv", "arrow", "sentencepiece", "libcurl"):
            self.assert_has(text, f"  {'ok' if libraries[library] else 'absent':<9} {library:<13} ")


    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "this machine has a GPU")
    def test_doctor_gpu_says_what_is_missing_without_a_gpu(self):
        document = self.program("doctor", "--gpu", "--json", code=11).json
        findings = {one["name"]: one for one in document["findings"]}
        for name in ("gpu devices", "gpu driver", "cuda"):
            self.assertEqual(findings[name]["health"], "broken", findings[name])
            self.assertTrue(findings[name]["hint"], findings[name])
        self.assert_has(findings["gpu devices"]["hint"], "driver 580", "--gpus all")
        self.assertIn("gpu engine", findings)
        self.assertEqual((document["gpu"]["usable"], document["gpu"]["self_test"]), (0, None))
        done = self.program("doctor", "--gpu", code=11)
        self.assert_has(done.out, "  broken    gpu devices   0 device files", "grade: unfit")
        self.assert_has(done.err, "error: cannot train on GPUs of this machine, because parts of it are broken: gpu devices")


class Refuses(CommandLine):
    def test_a_wrong_command_line_ends_with_2_and_names_the_closest_one(self):
        for words, message in (("validat", "unknown command 'validat'; did you mean 'validate'?"),
                               ("version --jsn", "unknown flag '--jsn'; did you mean '--json'?"),
                               ("version now", "unexpected argument 'now'"),
                               ("version --color blue", "'blue' is not one of auto, always, never"),
                               ("completion", "shell"), ("completion tcsh", "SHELL must be bash, zsh or fish, got 'tcsh'"),
                               ("list optimiser", "did you mean 'optimizer'?"),
                               ("--config x.yaml validate", "the flag '--config' belongs to 'validate': write it after the command"),
                               ("validate x.yaml ++", "'++' has no key")):
            done = self.program(*words.split(), code=2)
            self.assertEqual(done.out, "")
            self.assert_starts(done.err, "error: ")
            self.assert_has(done.err, message)

    def test_with_json_an_error_is_a_document_on_stdout(self):
        done = self.program("version", "--json", "--bogus", code=2)
        self.assertEqual(done.err, "")
        self.assertEqual((done.json["schema"], done.json["exit_code"]), ("trainctl.error/2", 2))
        self.assertIsInstance(done.json["errors"], list)

    def test_a_control_sequence_in_an_argument_does_not_reach_the_terminal(self):
        self.assertNotIn("\x1b", self.refused("\x1b[2J"))

    def test_lost_output_ends_with_11_and_its_cause(self):
        for words in ("list", "list --json", "--help", "--version", "schema", "version"):
            for redirection, cause in (("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
                text = self.shell(f'( {BINARY} {words} 2>&3 {redirection}; echo "code $?" >&3 ) 3>&1')
                self.assertEqual(text, f"error: cannot write to stdout: {cause}\ncode 11\n")

    def test_a_lost_error_document_is_printed_on_stderr(self):
        text = self.shell(f'{BINARY} plan --no-model --json a.yaml 2>&1 > /dev/full; echo "code $?"')
        self.assert_has(text, "error: ", "a.yaml")
        self.assertTrue(text.endswith("code 2\n"), text)

    def in_deleted_folder(self, words):
        return self.shell(f'mkdir -p d && cd d && rmdir ../d && {BINARY} {words} 2>&1; echo "code $?"')

    def test_a_deleted_working_directory_is_reported_but_not_as_a_bug(self):
        self.write("config.yaml", "model: mlp\n")
        for words in ("validate x.yaml", "run x.yaml", "show-config x.yaml", "plan x.yaml", "sweep x.yaml seed=1,2",
                      "checkpoint ls runs", "top runs", "predict x.yaml --checkpoint best --out y.csv"):
            with self.subTest(words):
                text = self.in_deleted_folder(words)
                self.assert_has(text, "the working directory has been deleted")
                self.assertNotIn("bug", text)

    def test_a_verb_that_starts_processes_refuses_a_deleted_working_directory(self):
        config = self.write("config.yaml", "model: mlp\n")
        for words in ("run {}", "run {} --run-dir /tmp/never", "eval {} --checkpoint /tmp/x", "plan {}", "bench {}", "tune {}",
                      "sweep {} seed=1,2", "lr-find {}", "verify-resume {}", "predict {} --checkpoint /tmp/x --out /tmp/y.csv",
                      "checkpoint export /tmp/x --out /tmp/y.pt", "doctor --link"):
            with self.subTest(words):
                self.assertEqual(self.in_deleted_folder(words.format(config)),
                                 "error: cannot start: the working directory has been deleted\n"
                                 "hint: change to a folder that exists, as in: cd ~\ncode 11\n")


class Completes(CommandLine):
    def test_bash_completes_verbs_flags_keys_and_values(self):
        script = self.write("complete.bash", f"source <({BINARY} completion bash)\n"
                            "COMP_LINE=\"$1\" COMP_POINT=${#1} COMP_WORDS=($1) COMP_WORDBREAKS=' ='\n"
                            'COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_trainctl\necho "${COMPREPLY[*]}"\n')

        def complete(line):
            return self.shell(f"bash {script} {shlex.quote('trainctl ' + line)} 2>&1")

        for line, start in (("va", "validate"), ("validate --js", "--json"), ("validate x.yaml optimizer.lr", "optimizer.lr="),
                            ("validate x.yaml trainer.accelerator=c", "cpu"), ("che", "check"), ("check --js", "--json"),
                            ("run --resume /us", "/usr"), ("sweep x.yaml --resume --jo", "--jobs"),
                            ("explain optimizer.adam.l", "optimizer.adam.lr"), ("schema optimizer/s", "optimizer/sgd"),
                            ("list opti", "optimizer"), ("data ha", "hash"), ("data hash --world", "--world-size"),
                            ("data hash x.yaml loader.batch", "loader.batch_size=")):
            self.assert_starts(complete(line), start)
        self.assert_has(complete("validate x.yaml ++loader.shu"), "++loader.shuffle=")
        for line, whole in (("run --color a", "auto always"), ("run --progress pl", "plain"), ("run x.yaml --resume la", "last"),
                            ("eval x.yaml --checkpoint be", "best"), ("run x.yaml ~trainer.max_e", "~trainer.max_epochs")):
            self.assertEqual(complete(line), whole + "\n")

    def test_zsh_and_fish_know_the_values_of_flags_and_which_may_be_paths(self):
        self.assert_has(self.program("completion", "zsh").out, "--resume) compadd -- auto last best; _files; return ;;",
                        "--color) compadd -- auto always never; return ;;")
        self.assert_has(self.fish(), "__fish_seen_subcommand_from run' -l resume -r -a 'auto last best'",
                        "__fish_seen_subcommand_from run' -l color -x -a 'auto always never'",
                        "__fish_seen_subcommand_from sweep' -l resume\n")

    def test_the_surface_grows_only_on_purpose(self):
        shared = ["--help", "--json", "--quiet", "--verbose", "--color", "--progress"]
        surface = ["# Verbs and flags. A change here is a change of what scripts rely on.", *(f"* {flag}" for flag in shared)]
        for verb, flag in self.flags():
            if flag == "--help":
                surface.append(verb)
            if flag not in shared:
                surface.append(f"{verb} {flag}")
        surface.append("# Keys of the experiment file, and what they may be where that is a choice.")
        for line in self.fish().splitlines():
            _, mark, keys = line.partition("from validate check' -a '")
            if mark:
                surface += keys[:-1].split()
        self.check_golden("surface.txt", "\n".join(surface) + "\n")


if __name__ == "__main__":
    main()
