#include "base/json.hpp"
#include "support/catch.hpp"
#include "support/program.hpp"
#include "support/temp_folder.hpp"

#include <unistd.h>

#include <csignal>
#include <fstream>

using trainctl::Json;

namespace {

std::string config_of(const TempFolder& folder, const std::string& name, const std::string& split) {
  const std::string path = (folder / name).string();
  std::ofstream(path)
      << "dataset: {train: " << split << "}\n"
      << "model: {type: mlp, hidden: [8]}\noptimizer: {type: adam}\ntrainer: {max_epochs: 2}\n";
  return path;
}

std::string digest_of(const std::string& config) {
  const ProgramRun run = run_program({"data", "hash", "--json", config});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  return run.json()["digest"];
}

void copy_seeds(const std::filesystem::path& to, const std::vector<std::string>& names) {
  std::filesystem::create_directories(to);
  for (const std::string& name : names) {
    std::filesystem::copy_file(
        std::filesystem::path(TRAINCTL_SOURCE_DIR) / "tests/fuzz/seeds/jpeg" / name,
        to / (name + ".jpg"));
  }
}

}  // namespace

TEST_CASE("data pack and data stats take images of different sizes, which batches do not",
          "[smoke]") {
  const TempFolder folder;
  copy_seeds(folder / "images/a", {"1x1", "420"});
  copy_seeds(folder / "images/b", {"444", "progressive"});
  const std::string source = config_of(folder, "source.yaml", "{type: image_folder, root: images}");
  const ProgramRun hash = run_program({"data", "hash", source});
  CHECK(hash.exit_code == 2);
  CHECK_THAT(hash.err, Contains("the images differ in size"));
  const std::string pack = (folder / "images.pack").string();
  const ProgramRun run = run_program({"data", "pack", source, "--out", pack, "--mode", "raw"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("4 samples"));
  CHECK(run_program({"data", "stats", source}).exit_code == 0);
}

TEST_CASE("data pack writes a file that gives the batches of its source", "[smoke]") {
  const TempFolder folder;
  const std::string source =
      config_of(folder, "source.yaml", "{type: synthetic_digits, samples: 300}");
  const std::string pack = (folder / "digits.pack").string();
  const ProgramRun run =
      run_program({"data", "pack", source, "--out", pack, "--mode", "raw", "--json"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run.json()["schema"] == "trainctl.data_pack/1");
  CHECK(run.json()["samples"] == 300);
  CHECK(run.json()["bytes"] == std::filesystem::file_size(pack));
  const std::string packed = config_of(folder, "packed.yaml", "{type: pack, path: digits.pack}");
  CHECK(digest_of(packed) == digest_of(source));
  const ProgramRun again = run_program({"data", "pack", source, "--out", pack, "--mode", "raw"});
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out, Contains("300 samples (raw), 300 of them found there"));
  CHECK(run_program({"data", "pack", source, "--out", pack}).exit_code == 2);
}

TEST_CASE("data pack refuses options that do nothing, and a pack that is cut off is a data error",
          "[smoke]") {
  const TempFolder folder;
  const std::string source =
      config_of(folder, "source.yaml", "{type: synthetic_digits, samples: 100}");
  const std::string pack = (folder / "digits.pack").string();
  const ProgramRun size = run_program({"data", "pack", source, "--out", pack, "--size", "8"});
  CHECK(size.exit_code == 2);
  CHECK_THAT(size.err, Contains("add --mode resize or raw"));
  REQUIRE(run_program({"data", "pack", source, "--out", pack}).exit_code == 0);
  std::filesystem::resize_file(pack, std::filesystem::file_size(pack) - 1);
  const ProgramRun cut = run_program(
      {"data", "hash", config_of(folder, "cut.yaml", "{type: pack, path: digits.pack}")});
  CHECK(cut.exit_code == 9);
  CHECK_THAT(cut.err, Contains("digits.pack ends at byte"));
}

TEST_CASE("data pack that Ctrl-C stops says how to go on, and ends by the signal", "[smoke]") {
  const TempFolder folder;
  const std::string source = config_of(
      folder, "source.yaml", "{type: synthetic_images, samples: 200000, height: 224, width: 224}");
  const std::vector<std::string> words{
      "data", "pack", source, "--out", (folder / "x.pack").string(), "--mode", "resize"};
  Program program(words);
  const std::filesystem::path journal = folder / "x.pack.journal";
  for (int i = 0; i < 6000 && !std::filesystem::exists(journal); ++i) ::usleep(10'000);
  ::usleep(300'000);  // whenever it comes, what was packed before the program looks is saved
  program.signal(SIGINT);
  const ProgramRun run = program.wait();
  CHECK(run.exit_code == 130);
  CHECK_THAT(run.err, Contains("start the same command again to go on"));
  CHECK(std::filesystem::file_size(journal) > 24);  // more than its head
}

TEST_CASE("with on_error=skip data pack and data stats leave damaged samples out", "[smoke]") {
  const TempFolder folder;
  copy_seeds(folder / "images/a", {"1x1", "420"});
  copy_seeds(folder / "images/b", {"444", "progressive"});
  std::ofstream(folder / "images/b/bad.jpg") << "no JPEG";
  const std::string source = config_of(folder, "source.yaml", "{type: image_folder, root: images}");
  const std::string pack = (folder / "images.pack").string();
  const std::string skip = "dataset.on_error=skip";
  const ProgramRun stopped = run_program({"data", "stats", source});
  CHECK(stopped.exit_code == 9);
  CHECK_THAT(stopped.err, Contains("b/bad.jpg: ") && !Contains("batch"));
  const ProgramRun stats = run_program({"data", "stats", source, skip});
  CHECK(stats.exit_code == 0);
  CHECK_THAT(stats.out, StartsWith("4 samples") && Contains(" a ") && Contains(" b "));
  CHECK_THAT(stats.err, Contains("warning: 1 sample cannot be read") && Contains("b/bad.jpg"));
  const ProgramRun packed = run_program({"data", "pack", source, skip, "--out", pack, "--json"});
  CAPTURE(packed.out);
  CHECK(packed.json()["samples"] == 4);
  CHECK(packed.json()["skipped"]["count"] == 1);
  CHECK_THAT(packed.json()["skipped"]["first"][0]["name"].get<std::string>(),
             EndsWith("b/bad.jpg"));
}

TEST_CASE("data hash, bench and show tell the samples that others replace", "[smoke]") {
  const TempFolder folder;
  copy_seeds(folder / "images/a", {"420"});
  copy_seeds(folder / "images/b", {"444", "progressive"});
  std::ofstream(folder / "images/b/bad.jpg") << "no JPEG";
  const std::string source =
      config_of(folder, "source.yaml",
                "{type: image_folder, root: images, transforms: [{type: resize, size: [16, 16]}]}");
  const std::string skip = "dataset.on_error=skip";
  const std::string small = "loader.batch_size=2";
  const std::string out = (folder / "x.png").string();
  for (std::vector<std::string> words :
       {std::vector<std::string>{"data", "hash", source, skip, small},
        std::vector<std::string>{"data", "bench", source, skip, small, "--repeats", "1", "--epochs",
                                 "1"},
        std::vector<std::string>{"data", "show", source, skip, small, "--out", out}}) {
    CAPTURE(words[1]);
    const ProgramRun plain = run_program(words);
    CHECK(plain.exit_code == 0);
    CHECK_THAT(plain.err, Contains("warning: 1 sample cannot be read, replaced by others:") &&
                              Contains("b/bad.jpg: "));
    words.emplace_back("--json");
    CHECK(run_program(words).json()["skipped"]["count"] == 1);
  }
}

TEST_CASE("packs with other classes than those of the training split are refused", "[smoke]") {
  const TempFolder folder;
  copy_seeds(folder / "train/cat", {"444"});
  copy_seeds(folder / "train/dog", {"444"});
  copy_seeds(folder / "val/dog", {"444"});
  copy_seeds(folder / "val/zebra", {"444"});
  for (const std::string split : {"train", "val"}) {
    const std::string source =
        config_of(folder, split + ".yaml", "{type: image_folder, root: " + split + "}");
    REQUIRE(run_program({"data", "pack", source, "--out", (folder / (split + ".pack")).string()})
                .exit_code == 0);
  }
  const std::string both = config_of(
      folder, "both.yaml",
      "{type: pack, path: train.pack, transforms: [{type: resize, size: [8, 8]}]}, val: {type: "
      "pack, path: val.pack, transforms: [{type: resize, size: [8, 8]}]}");
  const ProgramRun run = run_program({"validate", both});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("its class 0 is 'dog', that of dataset.train 'cat'"));
}
