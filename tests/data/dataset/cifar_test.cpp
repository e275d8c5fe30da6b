#include "data/dataset/cifar.hpp"

#include "data/idx_files.hpp"
#include "data/sources.hpp"
#include "data/tar_files.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

CifarSplit tiny(std::int64_t records = 1) {
  return {.type = "cifar10",
          .archive = "c.tar.gz",
          .folder = "bin",
          .files = {"1.bin", "2.bin"},
          .records = records,
          .classes = 10};
}

/// Returns records whose red, green and blue planes count from different values; the label is
/// `first` plus the index.
std::string records(int first, int count, int label_bytes = 1) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    for (int l = label_bytes; l-- > 0;) bytes += static_cast<char>(first + i + l);
    for (int k = 0; k < 3072; ++k) bytes += static_cast<char>(k / 1024 * 80 + k % 1024 + first);
  }
  return bytes;
}

std::string pack(const std::string& tar) {
  const Bytes packed = gzip(Bytes(tar.begin(), tar.end()));
  return {packed.begin(), packed.end()};
}

std::string failure(const TempFolder& folder, const CifarSplit& split) {
  return failure_of([&] { (void)CifarFiles(folder.path(), split).load(); });
}

}  // namespace

TEST_CASE("CifarFiles: files, a folder, a tar and a tar.gz give the same data set") {
  std::vector<std::string> prints;
  const std::string tar = tar_header("bin/", 0, '5') + tar_member("bin/2.bin", records(5, 2)) +
                          tar_member("bin/readme.html", "?") +
                          tar_member("bin/1.bin", records(3, 2)) + tar_end();
  for (int way = 0; way < 4; ++way) {
    const TempFolder folder;
    if (way < 2) {
      const std::string where = way == 0 ? "" : "bin/";
      put_text(folder / (where + "1.bin"), records(3, 2));
      put_text(folder / (where + "2.bin"), records(5, 2));
    } else {
      put_text(folder / (way == 2 ? "c.tar" : "c.tar.gz"), way == 2 ? tar : pack(tar));
    }
    const CifarFiles files(folder.path(), tiny(2));
    CHECK(files.facts().samples == 4);
    const auto dataset = files.load();
    CHECK(dataset->layout() ==
          Layout{{"image", Dtype::u8, {32, 32, 3}}, {"label", Dtype::i64, {}}});
    CHECK(labels_of(*dataset) == std::vector<std::int64_t>{3, 4, 5, 6});
    const auto pixels = values<std::uint8_t>(*dataset, 2, 0);
    CHECK(std::vector<int>(pixels.begin(), pixels.begin() + 6) ==
          std::vector<int>{5, 85, 165, 6, 86, 166});
    prints.push_back(dataset->fingerprint());
  }
  for (const std::string& print : prints) CHECK(print == prints[0]);
}

TEST_CASE("CifarFiles: label_at selects the coarse or the fine label of CIFAR-100") {
  const TempFolder folder;
  put_text(folder / "1.bin", records(7, 1, 2));
  CifarSplit split = tiny();
  split.files = {"1.bin"};
  split.label_bytes = 2;
  CHECK(labels_of(*CifarFiles(folder.path(), split).load()) == std::vector<std::int64_t>{8});
  split.label_at = 1;
  CHECK(labels_of(*CifarFiles(folder.path(), split).load()) == std::vector<std::int64_t>{7});
}

TEST_CASE("CifarFiles: every truncation is an error with file, byte and the command to fetch it") {
  const TempFolder folder;
  const std::string bytes = records(1, 1);
  put_text(folder / "1.bin", bytes);
  for (std::size_t length = 0; length <= bytes.size() + 1; ++length) {
    if (length == bytes.size()) continue;
    put_text(folder / "2.bin", (bytes + "x").substr(0, length));
    const std::string failed = failure(folder, tiny());
    const bool whole =
        failed.starts_with("9: ") &&
        failed.find("2.bin ends at byte " + std::to_string(length)) != std::string::npos &&
        failed.find("scripts/fetch-data cifar10") != std::string::npos;
    if (!whole) FAIL("at length " << length << ": " << failed);
    if (failure_of([&] { (void)CifarFiles(folder.path(), tiny()).facts(); }).empty())
      FAIL("facts accept " << length);
  }
}

TEST_CASE("CifarFiles: every truncation of a tar.gz is an error") {
  const TempFolder folder;
  CifarSplit split = tiny();
  split.files = {"1.bin"};
  const std::string bytes = pack(tar_member("1.bin", records(1, 1)) + tar_end());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    put_text(folder / "c.tar.gz", bytes.substr(0, length));
    const std::string failed = failure(folder, split);
    if (!failed.starts_with("9: ") || failed.find("c.tar.gz") == std::string::npos)
      FAIL(length << ": " << failed);
  }
}

TEST_CASE("CifarFiles: a missing, duplicate or invalid member of an archive is an error") {
  const TempFolder folder;
  const std::string one = tar_member("1.bin", records(1, 1));
  const auto failed = [&](const std::string& tar) {
    put_text(folder / "c.tar", tar + tar_end());
    return failure(folder, tiny());
  };
  CHECK_THAT(failed(one), Contains("does not contain 2.bin"));
  CHECK_THAT(failed(one + one), Contains("contains 1.bin twice"));
  CHECK_THAT(failed(one + tar_member("2.bin", "x")),
             Contains("c.tar:2.bin ends at byte 1, but must end at byte 3073 (1 samples"));
  CHECK_THAT(failed(one + tar_member("2.bin", records(10, 1))),
             Contains("c.tar:2.bin has label 10 at byte 0: labels must be 0 to 9"));
}

TEST_CASE("cifar10: missing files are an error with the command to fetch them") {
  const TempFolder folder;
  spec::dataset::Cifar10 options;
  options.root = folder.path();
  const std::string failed = failure_of([&] { (void)facts("cifar10", options); });
  CHECK_THAT(failed, Contains("contains neither cifar-10-binary.tar.gz nor data_batch_1.bin\nhint: "
                              "fetch the files with "
                              "'scripts/fetch-data cifar10'"));
  options.root = folder / "nowhere";
  CHECK_THAT(failure_of([&] { (void)build("cifar10", options); }),
             Contains("nowhere does not exist"));
}
