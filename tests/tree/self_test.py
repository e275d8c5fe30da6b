#!/usr/bin/env python3
"""Checks that every check finds a planted violation, and reports nothing in a clean tree."""

import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import commands_page
import config_page
import docs
import format as formatting
import host_reads
import language
import layers
import limits
import lint
import mutation_trial
import names
import needed
import plugin_headers
import registered
import sources
import stages
import tree
import words

TABLE = """
| rank | folder | what | outside library |
| --- | --- | --- | --- |
| 0 | `base` | x | fmt, xxhash |
| 1 | `config` | x | yaml-cpp |
| 3 | `data` | x | zlib |
| | **engine half** | | |
| 4 | `dist` | x | NCCL, c10d |
| 6 | `train` | x | |
| 8 | `apps/trainctl` | x | CLI11 |
"""
CLEAN = {
    "docs/architecture.md": TABLE,
    "README.md": "see [the map](docs/architecture.md)\n",
    "lib/base/error.hpp": "#pragma once\n#include <fmt/format.h>\n#include <string>\n",
    "lib/config/tree/node.cpp": '#include "base/error.hpp"\n#include <yaml-cpp/yaml.h>\n#include <sys/stat.h>\n',
    "lib/data/loader/ring.cpp": '#include "config/node.hpp"\n#include <zlib.h>\n',
    "lib/dist/gloo.cpp": "#include <torch/csrc/distributed/c10d/Store.hpp>\n",
    "lib/train/loop/trainer.cpp": '#include "dist/gloo.hpp"\n#include <torch/torch.h>\n',
    "apps/trainctl/main.cpp": '#include <CLI/CLI.hpp>\n#include "data/ring.hpp"\n',
    "tests/config/node_test.cpp": '#include "support/catch.hpp"\n#include "config/node.hpp"\n',
}


class Planted(unittest.TestCase):
    def tree_of(self, **planted):
        """Returns a folder with the clean tree and the given files, by path."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in {**CLEAN, **planted}.items():
            path = Path(folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder.name

    def expect(self, found, *parts):
        self.assertEqual(len(found), len(parts), found)
        for line, part in zip(found, parts):
            self.assertIn(part, line)


class Layers(Planted):
    def complaint(self, path, line):
        found = layers.check(self.tree_of(**{path: "\n" + line + "\n"}))
        self.assertLessEqual(len(found), 1, found)
        if found and "table" not in found[0]:
            self.assertIn(f"{path}:2:", found[0])
        return found[0] if found else ""

    def test_the_clean_tree_passes(self):
        self.expect(layers.check(self.tree_of()))

    def test_includes_must_refer_to_lower_layers(self):
        self.assertIn("rank 0", self.complaint("lib/base/x.cpp", '#include "config/node.hpp"'))
        self.assertIn("engine half", self.complaint("lib/data/x.cpp", '  #  include "train/train_loop.hpp"'))
        self.assertIn("engine half", self.complaint("apps/trainctl/x.cpp", '#include "train/train_loop.hpp"'))
        self.assertIn("names no folder", self.complaint("lib/base/x.cpp", '#include "error.hpp"'))
        self.assertIn("no folder of the table", self.complaint("lib/base/x.cpp", '#include "extra/x.hpp"'))
        self.assertIn("not in the table", self.complaint("lib/extra/x.cpp", "int x;"))

    def test_tests_follow_the_layer_of_their_folder(self):
        self.assertIn("rank 1", self.complaint("tests/config/x.cpp", '#include "data/ring.hpp"'))
        self.assertIn("support/catch.hpp", self.complaint("tests/config/x.cpp", "#include <catch2/catch.hpp>"))
        self.assertEqual("", self.complaint("tests/bench/x.cpp", '#include "data/ring.hpp"'))

    def test_an_external_library_is_included_by_one_folder(self):
        self.assertIn("yaml-cpp lives in config", self.complaint("lib/data/x.cpp", "#include <yaml-cpp/yaml.h>"))
        self.assertIn("zlib lives in data", self.complaint("lib/config/x.cpp", "#include <zlib.h>"))
        self.assertIn("c10d lives in dist", self.complaint("lib/train/x.cpp", "#include <torch/csrc/distributed/c10d/Store.hpp>"))
        self.assertIn("never sees libtorch", self.complaint("lib/data/x.cpp", "#include <ATen/core/Tensor.h>"))
        self.assertIn("no header includes it", self.complaint("lib/train/x.hpp", "#include <torch/torch.h>"))
        self.assertIn("no home", self.complaint("lib/base/x.cpp", "#include <boost/asio.hpp>"))

    def test_comments_are_not_includes(self):
        self.assertEqual("", self.complaint("lib/base/x.cpp", '// #include "config/node.hpp"'))
        self.assertEqual("", self.complaint("lib/base/x.cpp", '/* \n#include "config/node.hpp"\n*/'))

    def test_targets_depend_on_lower_layers(self):
        found = layers.check(self.tree_of(**{"lib/config/CMakeLists.txt": "trainctl_library(config\n  DEPS base data LIBS x SOURCES a.cpp)\n"}))
        self.expect(found, "may not depend on data")

    def test_a_missing_table_is_a_failure(self):
        self.expect(layers.check(self.tree_of(**{"docs/architecture.md": "nothing\n"})), "was not found")


class Names(Planted):
    def found(self, first, second):
        return names.check(self.tree_of(**{"lib/base/a.hpp": first, "lib/base/b.hpp": second}))

    def test_one_name_twice_in_a_namespace_is_found(self):
        self.expect(self.found("namespace a::b {\nstruct Run { int x = 0; };\n}\n",
                               "namespace a {\n// struct Other {\nnamespace b {\nenum class Run : char { x };\n}}\n"),
                    "lib/base/b.hpp:4: a::b::Run is defined in lib/base/a.hpp:2 too")

    def test_other_scopes_and_declarations_are_allowed(self):
        run = "namespace a {\nclass Run final : public Base { struct Part {}; };\n}\n"
        self.expect(self.found(run, "namespace b {\nstruct Run {};\nstruct Part {};\n}\n"))
        self.expect(self.found(run, "namespace a {\nclass Run;\nstruct Part {};\n}\n"))
        self.expect(self.found(run, "namespace a {\ninline int f() { struct Run { int x; }; return Run{}.x; }\n}\n"))


class Language(Planted):
    GLOSSARY = "word told|tells? | reports\nword of its own | separate\n"

    def found(self, text, glossary=GLOSSARY, path="lib/base/a.hpp"):
        return language.check(self.tree_of(**{"docs/glossary.txt": glossary, path: text}))

    def test_a_word_is_found_in_names_and_sentences(self):
        self.expect(self.found("int x;\nbool was_told = isTold();\n// It has a thread of its own.\n"),
                    "lib/base/a.hpp:2: 'told': write reports", "lib/base/a.hpp:3: 'of its own': write separate")

    def test_parts_of_words_do_not_match(self):
        self.expect(self.found("int untold;  // Tellers of stories.\n"))

    def test_none_in_python_code_does_not_match(self):
        code = "if found is None or self.isNone:\n"
        rule = "word is none | must be\n"
        self.expect(self.found(code, rule, "lib/a.py"))
        self.expect(self.found("# A word that is none.\n", rule, "lib/a.py"), "'is none'")

    def test_scripts_without_a_suffix_are_checked_and_golden_files_are_not(self):
        self.expect(self.found("It was told.\n", path="scripts/setup"), "scripts/setup:1")
        self.expect(self.found("It was told.\n", path="tests/golden/a.txt"))

    def test_an_exception_allows_one_pattern_below_one_path(self):
        allowed = self.GLOSSARY + "except lib/base told|tells? | the term of a library\n"
        self.expect(self.found("It was told.\n// of its own\n", allowed), "'of its own'")
        self.expect(self.found("int x;\n", allowed), "is not needed")

    def test_an_invalid_line_is_reported(self):
        self.expect(self.found("int x;\n", "word told\n"), "docs/glossary.txt:1: must be")


class Stages(Planted):
    FILES = {
        "lib/stages/stages.def": "// head\nSTAGE(model, mlp)\n",
        "lib/data/data.def": "STAGE(transform, crop)\n",
        "lib/spec/options/model.hpp": "struct Mlp {};\n", "lib/stages/model/mlp.cpp": "void register_model_mlp(int) {}\n",
        "lib/spec/options/transform.hpp": "struct Crop {};\n", "lib/data/transform/crop.cpp": "void register_transform_crop(int) {}\n",
    }

    def found(self, **planted):
        return stages.check(self.tree_of(**{**self.FILES, **planted}))

    def test_line_header_and_source_must_agree(self):
        self.expect(self.found())

    def test_missing_parts_are_reported(self):
        self.expect(self.found(**{"lib/stages/stages.def": "STAGE(model, mlp)\nSTAGE(model, cnn)\n"}), "struct Cnn", "no source")
        self.expect(self.found(**{"lib/stages/stages.def": "STAGE(model, mlp)\nSTAGE(loss, cnn)\n"}), "no header lib/spec/options/loss.hpp", "no source")
        self.expect(self.found(**{"lib/stages/stages.def": "STAGE(model, mlp)\nSTAGE(model, mlp)\n"}), "twice")
        self.expect(self.found(**{"lib/stages/stages.def": "STAGE(model, mlp)\nSTAGE(model,cnn)\n"}), "expected 'STAGE")
        self.expect(self.found(**{"lib/stages/model/mlp.cpp": "\n"}), "register_model_mlp is missing")
        self.expect(self.found(**{"lib/stages/model/cnn.cpp": "void register_model_cnn(int) {}\n"}), "no line STAGE(model, cnn) or STAGE(model, ..., cnn)")
        self.expect(self.found(**{"lib/data/transform/crop.cpp": "\n"}), "register_transform_crop is missing")
        self.expect(self.found(**{"lib/spec/options/cnn.hpp": ""}), "no line STAGE(cnn, ...), and nothing includes it")
        self.expect(self.found(**{"lib/spec/options/model.hpp": "struct MlpBase {};\n"}), "struct Mlp, the options of model/mlp, is missing")

    def test_stages_of_a_family_share_header_and_source(self):
        family = {
            "lib/stages/stages.def": "STAGE(model, mlp)\nSTAGE(model, deep_mlp, mlp)\n",
            "lib/spec/options/model.hpp": "struct Mlp {};\nstruct DeepMlp : Mlp {};\n",
            "lib/stages/model/mlp.cpp": 'void register_model_mlp(int) { add("deep_mlp"); }\n',
        }
        self.expect(self.found(**family))
        self.expect(self.found(**{**family, "lib/spec/options/model.hpp": "struct Mlp {};\n"}), "struct DeepMlp")
        self.expect(self.found(**{**family, "lib/stages/model/mlp.cpp": "void register_model_mlp(int) {}\n"}),
                    "register_model_mlp does not register deep_mlp")
        self.expect(self.found(**{**family, "lib/stages/stages.def": "STAGE(model, mlp, perceptron)\n"}),
                    "no source", "lib/stages/model/mlp.cpp: no line")

    def test_a_shared_helper_is_not_a_stage(self):
        self.expect(self.found(**{"lib/stages/model/blocks.cpp": "", "lib/stages/model/blocks.hpp": "",
                                   "lib/spec/options/base.hpp": "",
                                   "lib/spec/options/model.hpp": '#include "spec/options/base.hpp"\nstruct Mlp {};\n'}))

    def test_sections_that_list_a_kind_name_every_stage(self):
        files = {
            "lib/stages/stages.def": "STAGE(model, mlp)\nSTAGE(optimizer, sgd)\n", "lib/spec/options/optimizer.hpp": "struct Sgd {};\n",
            "lib/stages/optimizer/sgd.cpp": "void register_optimizer_sgd(int) {}\n",
            "docs/reference/failures.md": "# A\n\n### Skipped steps\n\n`sgd`\n\n## B\n",
            "docs/reference/learning-rates.md": "## Momentum of one_cycle_lr\n\n## B\n\n`sgd`\n",
        }
        self.expect(self.found(**files), "one_cycle_lr' does not name optimizer/sgd")


class Sources(Planted):
    FILES = {
        "lib/stages/stages.def": "STAGE(model, mlp)\nSTAGE(model, vit_tiny, transformer)\n",
        "lib/stages/model/mlp.cpp": "", "lib/stages/model/transformer.cpp": "", "lib/base/hash.cpp": "",
        "lib/base/CMakeLists.txt": "trainctl_library(base SOURCES hash.cpp)\n",
        "CMakeLists.txt": "# of the clean tree\n" + "\n".join(path for path in CLEAN if path.endswith(".cpp")),
        "tests/fuzz/tar_fuzz.cpp": "", "tests/fuzz/CMakeLists.txt": "trainctl_fuzzer(tar trainctl::data)\n",
    }

    def found(self, **planted):
        return sources.check(self.tree_of(**{**self.FILES, **planted}))

    def test_sources_of_the_build_are_named(self):
        self.expect(self.found())

    def test_a_source_without_a_line_is_found(self):
        self.expect(self.found(**{"lib/base/clock.cpp": ""}), "lib/base/clock.cpp: no CMakeLists.txt")
        self.expect(self.found(**{"lib/stages/model/cnn.cpp": ""}), "lib/stages/model/cnn.cpp: no CMakeLists.txt")
        self.expect(self.found(**{"tests/fuzz/idx_fuzz.cpp": ""}), "tests/fuzz/idx_fuzz.cpp: no CMakeLists.txt")
        self.expect(self.found(**{"tests/base/hash.cpp": ""}), "tests/base/hash.cpp: no CMakeLists.txt")


class PluginHeaders(Planted):
    def found(self, names, **planted):
        return plugin_headers.check(self.tree_of(**{"cmake/plugin_headers.txt": names, **planted}))

    def test_headers_that_a_plugin_cannot_find_are_reported(self):
        stage = {"lib/config/schema/stage.hpp": '#include "config/tree/node.hpp"\n#include <ATen/core/Tensor.h>\n', "lib/config/tree/node.hpp": ""}
        self.expect(self.found("config/schema/stage.hpp\nconfig/tree/node.hpp\n", **stage))
        self.expect(self.found("config/schema/stage.hpp\n", **stage), 'it includes "config/tree/node.hpp"')
        self.expect(self.found("config/gone.hpp\n"), "there is no lib/config/gone.hpp")
        self.expect(self.found("config/tree/node.hpp\nconfig/schema/stage.hpp\n", **stage), "not sorted")


class Limits(Planted):
    def lengths(self, text):
        return [last - first + 1 for first, last, _ in limits.functions(text)]

    def test_functions_are_found_and_measured(self):
        self.assertEqual([1], self.lengths("int f() { return 1; }"))
        self.assertEqual([4], self.lengths("namespace a {\nint f(int x)\n{\n  if (x) { x++; }\n}\n}"))
        self.assertEqual([3, 1], self.lengths("class A {\n  void f() const {\n    g();\n  }\n  int g() { return 1; }\n  int x = 3;\n};"))
        self.assertEqual([3], self.lengths('TEST_CASE("a {") {\n  auto f = [] { return 1; };\n}'))
        self.assertEqual([2], self.lengths("template <class T>\nstruct A { enum class B { a, b }; T f() { return T{};\n } };"))
        self.assertEqual([3], self.lengths("const auto f = [](int a) {\n  return a;\n};"))
        self.assertEqual([], self.lengths("constexpr int a[] = {\n 1,\n 2};\n#define X(a) { \\\n a }\nstruct B { int x{1}; };"))
        self.assertEqual([2], self.lengths('const char* f() {\n  return R"x({ } ")x" /* } */; } // {'))
        self.assertEqual([2], self.lengths("struct Result f(struct In in) {\n}"))
        self.assertEqual([2], self.lengths("template <class T>\nT f(T a, std::function<void(int)> b) { return a;}"))
        self.assertEqual([1], self.lengths("template <class T>\nclass alignas(64) A : B<T> {\n T f(struct X) const { }\n};"))
        self.assertEqual([1], self.lengths("namespace a { enum class E : int { x = (1), y };\nint f() { return 1; } }"))
        self.assertEqual([2], self.lengths("class K {\n  K(int a) : a_(a) {\n}\n int a_; };"))
        self.assertEqual([2], self.lengths("int f() { return 1'000'000;\n}"))

    def test_long_functions_and_files_are_reported(self):
        body = "int f() {\n" + "  g();\n" * 79 + "}\n"
        self.expect(limits.check(self.tree_of(**{"lib/base/x.cpp": "\n" + body})), "lib/base/x.cpp:2: 81 lines")
        self.expect(limits.check(self.tree_of(**{"lib/base/x.cpp": body.replace("  g();\n", "", 1)})))
        self.expect(limits.check(self.tree_of(**{"lib/base/x.cpp": "\n" * 601})), "601 lines; the limit")

    def test_too_many_or_too_small_files_are_reported(self):
        few_lines = {f"lib/base/f{i}.cpp": "int x;\n" for i in range(limits.MOST_IN_FOLDER + 1)}
        self.expect(limits.check(self.tree_of(**few_lines)), "sources and headers; the limit is", "the median file has 1 lines")


class Words(Planted):
    def test_unwanted_words_are_reported(self):
        home = "/ho" + "me/someone/x"
        self.expect(words.check(self.tree_of(**{"a.md": f"see {home}\n"})), "absolute path")
        self.expect(words.check(self.tree_of(**{"a.cpp": "// TO" + "DO later\n"})), "issue number")
        self.expect(words.check(self.tree_of(**{"a.cpp": "// TO" + "DO(#12) later\nint x; \n"})), "white space")
        self.expect(words.check(self.tree_of(**{"a.yaml": "a: 1"})), "no end")
        self.expect(words.check(self.tree_of()))


class Needed(unittest.TestCase):
    def test_the_entries_are_read(self):
        dynamic = " 0x1 (NEEDED)  Shared library: [libstdc++.so.6]\n 0x1 (NEEDED)  Shared library: [libtorch_cpu.so]\n"
        self.assertEqual(["libstdc++.so.6", "libtorch_cpu.so"], needed.needed(dynamic))
        rows = ("  1: 00 0 FUNC GLOBAL DEFAULT UND puts@GLIBC_2.2\n  2: 00 9 FUNC GLOBAL DEFAULT 12 trainctl_engine_v1@@V\n"
                "  3: 00 9 FUNC WEAK DEFAULT 12 _ZN1a\n  4: 00 9 FUNC LOCAL DEFAULT 12 b\n  5: 00 9 FUNC WEAK HIDDEN 12 c\n")
        self.assertEqual(["trainctl_engine_v1", "_ZN1a"], needed.exported(rows))

    def test_invalid_entries_are_reported(self):
        self.assertEqual(1, len(needed.check_program(["libc.so.6", "libtorch_cpu.so"])))
        self.assertEqual([], needed.check_program(["libstdc++.so.6", "libspdlog.so.1.10"]))
        right = ["libstdc++.so.6", "libtorch_cpu.so", "libc10.so"]
        self.assertEqual([], needed.check_engine(right, ["trainctl_engine_v1"]))
        self.assertIn("libstdc++", needed.check_engine(right[::-1], ["trainctl_engine_v1"])[0])
        self.assertIn("2 symbols", needed.check_engine(right, ["trainctl_engine_v1", "x"])[0])

    def test_a_runpath_that_does_not_lead_to_the_libraries_is_reported(self):
        dynamic = (" 0x1 (NEEDED) Shared library: [libtorch_cuda.so]\n 0x1 (NEEDED) Shared library: [libc.so.6]\n"
                   " 0x1d (RUNPATH) Library runpath: [/opt/torch/lib:::::]\n")
        found = {"/opt/torch/lib/libtorch_cuda.so"}.__contains__
        self.assertEqual([], needed.check_runpath(dynamic, "e", found))
        self.assertIn("libtorch_cuda.so", needed.check_runpath(dynamic, "e", lambda path: False)[0])
        self.assertIn("RPATH", needed.check_runpath(dynamic.replace("RUNPATH", "RPATH"), "e", found)[0])
        self.assertIn("relative folder lib", needed.check_runpath(dynamic.replace("/opt", "lib:/opt"), "e", found)[0])

    def test_architectures_are_read_from_a_fat_binary(self):
        entries = b"".join(struct.pack("<HHIQIIII", kind, 0x101, 64, 8, 0, 0, 0, number).ljust(72, b"\0")
                           for kind, number in ((2, 80), (2, 120), (1, 120)))
        fatbin = struct.pack("<IHHQ", needed.FATBIN_MAGIC, 1, 16, len(entries)) + entries
        found = needed.architectures(bytes(8) + fatbin + bytes(16) + fatbin)
        self.assertEqual({"sm_80", "sm_120", "compute_120"}, found)
        self.assertEqual([], needed.check_architectures(found, "80-real,120"))
        self.assertEqual([], needed.check_architectures(found, "80a-real,120f"))
        self.assertIn("no kernels for sm_90", needed.check_architectures(found, "80-real,90-real,120")[0])
        self.assertIn("sm_80, which", needed.check_architectures(found, "120")[0])

    def test_registered_finds_classes_that_no_entry_runs(self):
        source = ("class Base(Smoke):\n    def test_a(self): pass\nclass First(Base):\n    pass\n"
                  "class Second(Base):\n    def test_b(self): pass\nclass Helper:\n    pass\n")
        self.assertEqual(["First", "Second"], registered.classes_of(source))
        listing = 'smoke_tests(run some_test CLASSES First PROCESSORS 2)\nsmoke_tests(run other_test CLASSES Second)'
        self.assertEqual(["Second"], registered.unregistered(source, "some_test", listing))
        self.assertEqual([], registered.unregistered(source, "some_test", listing.replace("First", "First Second")))
        self.assertEqual([], registered.unregistered(source, "whole_test", 'COMMAND python3 "whole_test.py")'))


class Docs(Planted):
    def test_stages_in_docs_have_the_options_of_the_schema(self):
        schema = '{"$defs": {"optimizer.sgd": {"properties": {"type": {}, "lr": {}, "betas": {}}}}}'
        page = f"{TABLE}\nwrite `{{ type: sgd, lr: 0.1, betas: [0.9, 1] }}`, `[{{ type: sgd }}]`, %s\n"
        files = {"configs/schema.json": schema, "docs/architecture.md": page % "{ type: adam }"}
        self.expect(docs.check(self.tree_of(**files)))
        files["docs/architecture.md"] = page % "`{ type: sgd, rate: 1 }` `{ type: adam }`"
        self.expect(docs.check(self.tree_of(**files)), "no stage sgd has the options: rate", "no stage adam has the options: none")

    def test_outdated_docs_are_reported(self):
        self.expect(docs.check(self.tree_of()))
        self.expect(docs.check(self.tree_of(**{"lib/extra/x.hpp": ""})), "lib/extra is not in the table")
        self.expect(docs.check(self.tree_of(**{"docs/architecture.md": TABLE + "| 2 | `gone` | x | |\n"})), "names gone")
        self.expect(docs.check(self.tree_of(**{"docs/a.md": "[x](b.md) [y](https://a.b) [z](a.md#top)\n"})), "leads nowhere: b.md")
        self.expect(docs.check(self.tree_of(**{"docs/adr/0002-x.md": "x\n"})), "no page links to it", "numbered 0002")
        self.expect(docs.check(self.tree_of(**{"README.md": "x\n" * 121})), "no page links to it", "121 lines")

    def test_timing_phases_without_a_row_or_a_range_are_reported(self):
        line = 'TIMING_PHASE(eval, eval_s, outside, "evaluation", "eval", "a", "b", "c")\n'
        files = {"lib/events/timing_fields.def": "// head\n" + line, "docs/how-to/profile.md": "`evaluation`\n",
                 "docs/reference/run-folder.md": "| `wall_s` | s | x |\n| `eval_s` | s | x |\n| `samples` | | x |\n",
                 "lib/events/records.hpp": "",
                 "docs/architecture.md": TABLE + "| 1 | `events` | x | |\n[x](how-to/profile.md) [y](reference/run-folder.md)\n"}
        self.expect(docs.check(self.tree_of(**files)))
        second = line.replace("(eval, eval_s", "(save, save_s").replace("evaluation", "saving")
        files["lib/events/timing_fields.def"] += second
        self.expect(docs.check(self.tree_of(**files)), "eval_s, save_s", "the NVTX range saving")


class HostReads(Planted):
    def found(self, *lines, path="lib/train/step/a.cpp"):
        return host_reads.check(self.tree_of(**{path: "\n".join(lines) + "\n"}))

    def test_reads_that_nothing_counts_are_reported(self):
        for line in ("return loss.item<float>();", "auto host = sums.cpu();", "auto host = sums.to(at::kCPU, at::kFloat);",
                     "table.to(x.device());", "if (at::equal(a, b)) return;", "rows.ne(-1).nonzero();",
                     "stream->synchronize();", "c10::cuda::device_synchronize();"):
            self.expect(self.found("", line), "lib/train/step/a.cpp:2: the host may wait")

    def test_reads_that_are_counted_or_wait_for_nothing_pass(self):
        self.expect(self.found('count_host_wait("a");', "", "return loss.item<float>();"))
        self.expect(self.found('count_host_wait("a");', "x = loss.item<float>();", "y = loss.item<float>();"), "a.cpp:3:")
        self.expect(self.found('count_host_wait("a");', "", "", "", "x = loss.item<float>();"), "a.cpp:5:")
        self.expect(self.found("return device::value_of<float>(loss, kPlace);", "x = x.to(at::kFloat);", "// loss.item<float>()"))
        self.expect(self.found("part.to(device, /*non_blocking=*/true);", "layers_.to(device);"))
        self.expect(self.found("return sums_.cpu();  // its caller counts the host wait"))
        self.expect(self.found("loss.item<float>();", path="lib/engine/jobs/test_gpu.cpp"))
        self.expect(self.found("json.item();", path="lib/report/a.cpp"))


class Lint(Planted):
    def test_a_disabled_check_needs_a_reason(self):
        head = "# -a-b: because\n"
        self.assertEqual([], lint.check_reasons(head + "Checks: '-*,c-*,-a-b'\n"))
        self.expect(lint.check_reasons(head + "Checks: '-*,c-*,-a-b,-d-e'\n"), "-d-e has no reason")
        self.expect(lint.check_reasons(head + "Checks: '-*,c-*'\n"), "which is not taken out")
        self.expect(lint.check_reasons("Checks: '-*,c-* d-*'\n"), "a comma may be missing")

    def test_an_empty_configuration_is_reported(self):
        if not lint.tidy_program():
            self.skipTest("no clang-tidy here")
        found = lint.check_planted(self.tree_of(**{".clang-tidy": "Checks: '-*,modernize-use-nullptr'\n"}), lint.tidy_program())
        self.assertEqual(4, len(found), found)

    def test_a_broken_script_is_reported(self):
        if not lint.shutil.which("shellcheck"):
            self.skipTest("no shellcheck here")
        script = "#!/bin/bash\necho $1\n"
        self.assertTrue(any("scripts/x" in line for line in lint.check_scripts(self.tree_of(**{"scripts/x": script}))))
        self.assertEqual([], lint.check_scripts(self.tree_of(**{"scripts/x": script.replace("$1", '"$1"')})))

    def test_a_badly_formatted_source_is_reported(self):
        if not formatting.formatter():
            self.skipTest("no clang-format here")
        style = (Path(__file__).parents[2] / ".clang-format").read_text()
        root = self.tree_of(**{".clang-format": style, "lib/base/x.cpp": "int  f( ) {return 1;}\n"})
        self.assertTrue(any(line.startswith("lib/base/x.cpp:") for line in formatting.check(root, formatting.formatter())))


class ConfigPage(unittest.TestCase):
    def test_every_key_is_on_the_page(self):
        leaf = {"type": "integer", "minimum": 1, "description": "Width.", "default": 3}
        plain = {"type": "object", "description": "A net.", "properties": {"type": {"const": "mlp"}, "width": leaf}}
        with_extra = {"properties": {**plain["properties"], "extra": {"type": "boolean", "description": "More."}}}
        net = {"anyOf": [{"anyOf": [{"enum": ["mlp"]}, with_extra]}, {"$ref": "#/$defs/reference"}]}
        whole = {"properties": {"seed": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/reference"}], "description": "a|b"},
                                "part": {"type": "object", "properties": {"net": net}},
                                "model": {"anyOf": [{"$ref": "#/$defs/model"}, {"type": "null"}]}},
                 "required": ["model"]}
        schema = {"properties": {"extends": {"type": "string"}},
                  "$defs": {"reference": {}, "whole": whole, "model": {}, "model.mlp": plain, "overlay.model.mlp": {}}}
        page = config_page.page(schema)
        for row in ("| `seed` | integer |  | a\\|b |", "| `part` | section |  |  |", "| `part.net` | [model](#model) and |  |  |",
                    "| `part.net.extra` | boolean |  | More. |", "| `model` | [model](#model) | required |  |", "| `extends` | string |  |  |",
                    "### mlp", "| `width` | integer >= 1 | `3` | Width. |"):
            self.assertIn(row + "\n", page)


class CommandsPage(unittest.TestCase):
    def test_commands_are_read_from_the_lists_before_the_options(self):
        text = "Works.\n\nUsage: x COMMAND\n\nCommands:\n  lr-find   finds\n  ls        lists\n\nOptions:\n  not-one   of them\n\nGlobal options:\n  -h\n"
        self.assertEqual(commands_page.commands_in(text), ["lr-find", "ls"])
        self.assertNotIn("-h", commands_page.without_global_options(text))


class MutationTrial(unittest.TestCase):
    SOURCE = """#include "x.hpp"
// if (never) {}
constexpr bool small(int x) {
  if (x < 3) return true;
  return false;
}
int f(int x, const char* text) {
  if (x > (x + 1) % 2 && text[0] == ')') return 1;
  if (const auto found = find(x)) return 2;
  if (const int y = x; y > 1) return 3;
  while (true) { g("if (no) {}"); }
  ENSURE(config, h(x, 1), "a text, {}", x);
  if (!is_good(x) ||
      x == 4)
    return 5;
}
"""

    def test_conditions_that_a_compiler_evaluates_or_that_declare_are_left_out(self):
        found = [(place.line, place.condition) for place in mutation_trial.places_in("lib/x.cpp", self.SOURCE)]
        self.assertEqual(found, [(8, "x > (x + 1) % 2 && text[0] == ')'"), (12, "h(x, 1)"), (13, "!is_good(x) || x == 4")])

    def test_each_place_is_selected_by_its_number(self):
        places = list(enumerate(mutation_trial.places_in("lib/x.cpp", self.SOURCE), 1))
        text = mutation_trial.flipped(self.SOURCE, places)
        self.assertIn("if (trainctl_mutant(1) != static_cast<bool>(x > (x + 1) % 2 && text[0] == ')')) return 1;", text)
        self.assertIn("ENSURE(config,trainctl_mutant(2) != static_cast<bool>(h(x, 1)),", text)
        self.assertEqual(text.count("trainctl_mutant"), 3)

    def test_the_program_has_enough_places_and_a_seed_chooses_the_same(self):
        places = mutation_trial.all_places(Path(__file__).resolve().parents[2])
        self.assertGreater(len(places), 3000)
        self.assertTrue(all(place.path.startswith("lib/") for place in places))

    def test_the_share_of_detected_mutations_decides(self):
        place = {"path": "lib/x.cpp", "line": 3, "condition": "x < 3"}
        results = [{"place": place, "test": "a test"}] * 9 + [{"place": place, "test": None}]
        self.assertTrue(mutation_trial.report_of(results, 0.9)[0])
        good, text = mutation_trial.report_of(results[1:], 0.9)
        self.assertFalse(good)
        self.assertIn("lib/x.cpp:3  x < 3\n8 of 9 noticed (89%)", text)


class Files(unittest.TestCase):
    def test_git_decides_what_belongs_to_the_tree(self):
        with tempfile.TemporaryDirectory() as root:
            for name in ("a.cpp", "ignored.cpp", "build/b.cpp"):
                (Path(root) / name).parent.mkdir(exist_ok=True)
                (Path(root) / name).write_text("")
            self.assertEqual(["a.cpp", "ignored.cpp"], [str(path) for path in tree.files(root, ".cpp")])
            (Path(root) / ".gitignore").write_text("ignored.cpp\n")
            subprocess.run(["git", "init", "-q", root], check=True)
            self.assertEqual(["a.cpp"], [str(path) for path in tree.files(root, ".cpp")])


if __name__ == "__main__":
    unittest.main()
