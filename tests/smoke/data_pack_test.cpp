#include "base/json.hpp"
#include "support/catch.hpp"
#include "support/program.hpp"
#include "support/temp_folder.hpp"

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
