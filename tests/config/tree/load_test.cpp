#include "config/support.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <cstdlib>
#include <fstream>

using namespace trainctl;
using config::Diagnostics;
using config::Node;
using sample::text_at;
using sample::tree;

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

Node load(const std::filesystem::path& path) {
  Diagnostics diagnostics;
  Node tree = sample::load_tree(path, {}, diagnostics).tree;
  diagnostics.throw_if_errors();
  return tree;
}

}  // namespace

TEST_CASE("extends: a file overrides the files that it extends") {
  const TempFolder folder;
  write(folder / "base.yaml",
        "seed: 1\ntrainer: {max_epochs: 5, devices: 2}\nmetrics: [accuracy, loss]\nname: base\n");
  write(folder / "more.yaml", "trainer: {devices: 4}\n");
  write(
      folder / "main.yaml",
      "extends: [base.yaml, more.yaml]\ntrainer: {max_epochs: 9}\nmetrics: [accuracy]\nname: ~\n");
  const Node root = load(folder / "main.yaml");
  CHECK(text_at(root, "seed") == "1");
  CHECK(text_at(root, "trainer.max_epochs") == "9");
  CHECK(text_at(root, "trainer.devices") == "4");
  CHECK(root.find("metrics")->items.size() == 1);
  CHECK(root.find("name")->is_null());
  CHECK(root.find("extends") == nullptr);
}

TEST_CASE("merge: another type replaces all options of a stage, otherwise they are merged") {
  const auto merged = [](const char* base, const char* overlay) {
    return config::merge(tree(base), tree(overlay));
  };
  const Node other =
      merged("optimizer: {type: adam, betas: [1, 2]}", "optimizer: {type: sgd, lr: 1}");
  CHECK(text_at(other, "optimizer.type") == "sgd");
  CHECK(config::find_path(other, "optimizer.betas") == nullptr);
  const Node same = merged("optimizer: {type: adam, eps: 3}", "optimizer: {type: adam, lr: 1}");
  CHECK(text_at(same, "optimizer.eps") == "3");
  const Node none = merged("optimizer: {type: adam, eps: 3}", "optimizer: {lr: 1}");
  CHECK(text_at(none, "optimizer.type") == "adam");
  CHECK(text_at(none, "optimizer.eps") == "3");
  const Node promoted = merged("optimizer: adam", "optimizer: {lr: 1}");
  CHECK(text_at(promoted, "optimizer.type") == "adam");
  CHECK(text_at(promoted, "optimizer.lr") == "1");
  CHECK(text_at(merged("optimizer: {type: adam, lr: 1}", "optimizer: adam"), "optimizer") ==
        "adam");
}

TEST_CASE("extends: paths are relative to the file that contains them, and all files are listed") {
  const TempFolder folder;
  write(folder / "common/base.yaml",
        "extends: ../deep.yaml\ndataset: {train: {type: mnist, root: files}}\n");
  write(folder / "deep.yaml", "optimizer: adam\n");
  write(folder / "runs/main.yaml",
        "extends: ../common/base.yaml\ndataset: {val: {type: mnist, root: "
        "\"${dataset.train.root}\"}}\n");
  Diagnostics diagnostics;
  const config::LoadedTree loaded = sample::load_tree(folder / "runs/main.yaml", {}, diagnostics);
  REQUIRE(loaded.files.size() == 3);
  CHECK(loaded.files[0].path == folder / "runs/main.yaml");
  CHECK_THAT(loaded.files[1].text, Contains("files"));
  const sample::Experiment read = sample::read(loaded.tree, diagnostics);
  diagnostics.throw_if_errors();
  CHECK(read.dataset->train.dataset.as<sample::Mnist>().root == folder / "common/files");
  CHECK(read.dataset->val->dataset.as<sample::Mnist>().root == folder / "common/files");
}

TEST_CASE("extends: a chain of more than 16 files is an error") {
  const TempFolder folder;
  write(folder / "0.yaml", "optimizer: adam\n");
  for (int i = 1; i <= 17; ++i) {
    write(folder / (std::to_string(i) + ".yaml"), "extends: " + std::to_string(i - 1) + ".yaml\n");
  }
  CHECK(text_at(load(folder / "16.yaml"), "optimizer") == "adam");
  CHECK_THROWS_WITH(load(folder / "17.yaml"),
                    Contains("the chain of base files has more than 16 files"));
}

TEST_CASE("extends: more than 64 base files are an error") {
  const TempFolder folder;
  write(folder / "0.yaml", "seed: 1\n");
  for (int i = 1; i <= 8; ++i) {
    const std::string below = std::to_string(i - 1) + ".yaml";
    write(folder / (std::to_string(i) + ".yaml"),
          "extends: [" + below + ", " + below + ", " + below + "]\n");
  }
  CHECK_THROWS_WITH(load(folder / "8.yaml"), Contains("more than 64 base files"));
}

TEST_CASE("overrides: values are set, added and deleted, also in lists") {
  const char* text =
      "optimizer: {type: adam, lr: 1}\nmodel: {type: mlp, hidden: [128, 64]}\nmetrics: [accuracy, "
      "top_k_accuracy]\n";
  CHECK(text_at(tree(text, {"optimizer.lr=0.5"}), "optimizer.lr") == "0.5");
  CHECK(text_at(tree(text, {"trainer.max_epochs=3"}), "trainer.max_epochs") == "3");
  CHECK(text_at(tree(text, {"+optimizer.eps=2"}), "optimizer.eps") == "2");
  CHECK(text_at(tree(text, {"++optimizer.lr=2"}), "optimizer.lr") == "2");
  CHECK(text_at(tree(text, {"~optimizer.lr"}), "optimizer.lr") == "(none)");
  CHECK(text_at(tree(text, {"model.hidden.1=32"}), "model.hidden.1") == "32");
  CHECK(text_at(tree(text, {"+model.hidden.2=32"}), "model.hidden.2") == "32");
  CHECK(tree(text, {"~model.hidden.0"}).find("model")->find("hidden")->items.size() == 1);
  CHECK(text_at(tree(text, {"metrics.1.k=3"}), "metrics.1.type") == "top_k_accuracy");
  CHECK(text_at(tree(text, {"model.hidden=[1, 2, 3]"}), "model.hidden.2") == "3");
  CHECK(text_at(tree(text, {"name=a=b"}), "name") == "a=b");
  CHECK(text_at(tree(text, {"name=''"}), "name").empty());
  CHECK(text_at(tree(text, {"seed=1", "seed=2"}), "seed") == "2");
}

TEST_CASE("overrides: more than 1,000 are an error") {
  const auto errors_of = [](std::size_t count) {
    Diagnostics diagnostics;
    (void)finish_tree(Node::map(), std::vector<std::string>(count, "seed=1"), diagnostics);
    return diagnostics.error_count() == 0 ? "" : diagnostics.render();
  };
  CHECK(errors_of(1000).empty());
  CHECK_THAT(errors_of(1001), Contains("at most 1,000 overrides, got 1001"));
}

TEST_CASE("overrides: an option of a stage in short form makes the stage a map") {
  const Node root = tree("optimizer: adam", {"optimizer.lr=0.1"});
  CHECK(text_at(root, "optimizer.type") == "adam");
  CHECK(text_at(root, "optimizer.lr") == "0.1");
  CHECK(
      sample::experiment("optimizer: adam", {"optimizer.lr=0.1"}).optimizer.as<sample::Adam>().lr ==
      0.1);
}

TEST_CASE("overrides: another type drops the file's options and keeps those of overrides") {
  const Node root =
      tree("optimizer: {type: adam, betas: [1, 2]}", {"optimizer.lr=0.1", "optimizer.type=sgd"});
  CHECK(text_at(root, "optimizer.lr") == "0.1");
  CHECK(config::find_path(root, "optimizer.betas") == nullptr);
  CHECK(text_at(tree("optimizer: {type: adam, lr: 1}", {"optimizer.type=adam"}), "optimizer.lr") ==
        "1");
}

TEST_CASE("interpolation: a single reference keeps the type, within a text it becomes text") {
  const Node root = tree(
      "a: {b: 3, c: [1, 2]}\nwhole: ${a.b}\nmap: \"${a}\"\nitem: ${a.c.1}\ntext: "
      "x-${a.b}-${item}\nplain: $${a.b} "
      "$5\n");
  CHECK(text_at(root, "whole") == "3");
  CHECK_FALSE(root.find("whole")->quoted);
  CHECK(root.find("whole")->position.line == 2);
  CHECK(text_at(root, "map.c.0") == "1");
  CHECK(text_at(root, "item") == "2");
  CHECK(text_at(root, "text") == "x-3-2");
  CHECK(text_at(root, "plain") == "${a.b} $5");
}

TEST_CASE("interpolation: a reference may refer to another one and to an override") {
  const Node root =
      tree("a: ${b}\nb: {c: \"${d}\"}\nd: 7\nthrough: ${a.c}\n", {"d=8", "e=${through}"});
  CHECK(text_at(root, "through") == "8");
  CHECK(text_at(root, "e") == "8");
}

TEST_CASE("interpolation: an environment variable has a type and may have a default") {
  ::setenv("TRAINCTL_TEST_N", "12", 1);
  ::unsetenv("TRAINCTL_TEST_NONE");
  const Node root = tree(
      "n: 5\na: ${env:TRAINCTL_TEST_N}\nb: \"${env:TRAINCTL_TEST_NONE,data}/x\"\nc: "
      "${env:TRAINCTL_TEST_NONE,~}\n"
      "d: ${env:TRAINCTL_TEST_NONE,}\ne: \"${env:TRAINCTL_TEST_NONE,${n}}\"\n");
  CHECK(text_at(root, "a") == "12");
  CHECK_FALSE(root.find("a")->quoted);
  CHECK(text_at(root, "b") == "data/x");
  CHECK(root.find("c")->is_null());
  CHECK(root.find("d")->quoted);
  CHECK(text_at(root, "e") == "5");
}

TEST_CASE("interpolation: the text of an environment variable is not interpolated") {
  ::setenv("TRAINCTL_TEST_EVIL", "${env:HOME}", 1);
  CHECK(text_at(tree("a: ${env:TRAINCTL_TEST_EVIL}"), "a") == "${env:HOME}");
}

TEST_CASE("interpolation: exponential growth and long chains are an error") {
  const auto message = [](const std::string& text) {
    Diagnostics diagnostics;
    config::finish_tree(config::load_text("test.yaml", text, diagnostics), {}, diagnostics);
    return diagnostics.render();
  };
  std::string doubling = "x0: ab\n";
  std::string nesting = "x0: [1]\n";
  std::string chain = "x0: 1\n";
  for (int i = 1; i < 60; ++i) {
    const std::string before = std::to_string(i - 1);
    doubling += "x" + std::to_string(i) + ": \"${x" + before + "}${x" + before + "}\"\n";
    nesting += "x" + std::to_string(i) + ": [\"${x" + before + "}\", \"${x" + before + "}\"]\n";
    chain += "x" + std::to_string(i) + ": ${x" + before + "}\n";
  }
  CHECK_THAT(message(doubling),
             Contains("after its references are resolved") || Contains("a chain of more than"));
  CHECK_THAT(message(nesting), Contains("more than 100,000 values after its"));
  CHECK_THAT(message(chain), Contains("a chain of more than 32 references"));
}
