#include "data/dataset/mnist.hpp"
#include "data/fakes.hpp"
#include "data/idx_files.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <sys/stat.h>

#include <cmath>
#include <cstring>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

spec::dataset::Idx options_of(const std::filesystem::path& root,
                              spec::Split split = spec::Split::train) {
  spec::dataset::Idx options;
  options.root = root;
  options.split = split;
  return options;
}

std::string load_failure(const TempFolder& folder) {
  return failure_of([&] { (void)IdxFiles(options_of(folder.path()), "mnist").load(); });
}

std::string facts_failure(const TempFolder& folder) {
  return failure_of([&] { (void)IdxFiles(options_of(folder.path()), "mnist").facts(); });
}

void put(Bytes& bytes, std::size_t offset, std::uint32_t value) {
  Bytes word;
  append_word(word, value);
  std::copy(word.begin(), word.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace

TEST_CASE("IdxFiles: plain and gzip files give the same data set") {
  std::vector<std::string> fingerprints;
  for (const bool packed : {false, true}) {
    const TempFolder folder;
    write_split(folder.path(), 13);
    if (packed) {
      for (const char* name : {kImages, kLabels}) {
        std::filesystem::remove(folder / name);
        write_file(folder / (std::string(name) + ".gz"),
                   gzip(name == kImages ? idx_images(13) : idx_labels(13)));
      }
    }
    const auto dataset = IdxFiles(options_of(folder.path()), "mnist").load();
    CHECK(dataset->size() == 13);
    CHECK(dataset->classes() == 10);
    CHECK(dataset->layout() ==
          Layout{{"image", Dtype::u8, {28, 28, 1}}, {"label", Dtype::i64, {}}});
    fingerprints.push_back(dataset->fingerprint());

    std::vector<std::byte> pixels(2 * 784);
    std::vector<std::byte> labels(16);
    const std::span<std::byte> rows[] = {pixels, labels};
    const std::int64_t indices[] = {12, 3};
    dataset->fill(indices, rows);
    CHECK(pixels[5] == std::byte{17});
    CHECK(pixels[784] == std::byte{3});
    CHECK(labels[0] == std::byte{2});
    CHECK(labels[8] == std::byte{3});
  }
  CHECK(fingerprints[0] == fingerprints[1]);
}

TEST_CASE("IdxFiles: every truncation is an error with file, byte and the command to fetch it") {
  const TempFolder folder;
  write_split(folder.path(), 5);
  const Bytes images = idx_images(5);
  for (std::size_t length = 0; length < images.size(); ++length) {
    write_file(folder / kImages,
               Bytes(images.begin(), images.begin() + static_cast<std::ptrdiff_t>(length)));
    const std::string failure = load_failure(folder);
    const bool complete_sentence = failure.starts_with("9: ") &&
                                   failure.find(kImages) != std::string::npos &&
                                   failure.find("byte") != std::string::npos &&
                                   failure.find("'scripts/fetch-data mnist'") != std::string::npos;
    if (!complete_sentence) FAIL("at length " << length << ": " << failure);
    if (facts_failure(folder).empty()) FAIL("facts accept length " << length);
  }
}

TEST_CASE("IdxFiles: every truncation of a gzip file is an error") {
  const TempFolder folder;
  write_file(folder / kImages, idx_images(3));
  const Bytes packed = gzip(idx_labels(3));
  for (std::size_t length = 0; length < packed.size(); ++length) {
    write_file(folder / "train-labels-idx1-ubyte.gz",
               Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(length)));
    const std::string failure = load_failure(folder);
    if (!failure.starts_with("9: ")) FAIL("at length " << length << ": " << failure);
  }
}

TEST_CASE("IdxFiles: a flipped bit of a gzip file never changes the data without an error") {
  const TempFolder folder;
  write_file(folder / kImages, idx_images(3));
  const Bytes good = gzip(idx_labels(3));
  const auto reference = [&] {
    write_file(folder / "train-labels-idx1-ubyte.gz", good);
    return IdxFiles(options_of(folder.path()), "mnist").load()->fingerprint();
  }();
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] = static_cast<std::uint8_t>(bad[bit / 8] ^ (1U << bit % 8));
    write_file(folder / "train-labels-idx1-ubyte.gz", bad);
    try {
      // Bits of the gzip header without content (time, system) may differ.
      if (IdxFiles(options_of(folder.path()), "mnist").load()->fingerprint() != reference)
        FAIL("bit " << bit);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::data);
    }
  }
}

TEST_CASE("IdxFiles: the error for an invalid header gives the expected and the actual value") {
  const TempFolder folder;
  const auto failure_with = [&](std::size_t offset, std::uint32_t value) {
    write_split(folder.path(), 5);
    Bytes images = idx_images(5);
    put(images, offset, value);
    write_file(folder / kImages, images);
    return load_failure(folder);
  };
  CHECK_THAT(
      failure_with(0, 0x801),
      Contains("is not an IDX file of images: it must start with 0x00000803, got 0x00000801"));
  CHECK_THAT(failure_with(0, 0x1F8B0808), Contains("is a gzip file without .gz in its name"));
  CHECK_THAT(failure_with(4, 0), Contains("has 0 samples (byte 4)"));
  CHECK_THAT(failure_with(4, 4),
             Contains("4 samples, which need 3152 bytes, but the file has 3936"));
  CHECK_THAT(failure_with(4, 6),
             Contains("6 samples, which need 4720 bytes, but the file has 3936"));
  CHECK_THAT(failure_with(4, 0x80000000),
             Contains("its header (byte 4) states 2,147,483,648 samples"));
  CHECK_THAT(failure_with(4, 0xFFFFFFFF),
             Contains("its header (byte 4) states 4,294,967,295 samples"));
  CHECK_THAT(failure_with(8, 27), Contains("must have images of 28 rows, got 27 (byte 8)"));
  CHECK_THAT(failure_with(12, 0xFFFFFFFF),
             Contains("must have images of 28 columns, got 4294967295 (byte 12)"));
}

TEST_CASE("IdxFiles: different numbers of images and labels are an error") {
  const TempFolder folder;
  write_split(folder.path(), 5);
  write_file(folder / kLabels, idx_labels(4));
  CHECK_THAT(load_failure(folder), Contains("has 4 labels for 5 images"));
  CHECK_THAT(facts_failure(folder), Contains("has 4 labels for 5 images"));
}

TEST_CASE("IdxFiles: a label above 9 is an error with its offset") {
  const TempFolder folder;
  write_split(folder.path(), 5);
  Bytes labels = idx_labels(5);
  labels[8 + 3] = 10;
  write_file(folder / kLabels, labels);
  CHECK_THAT(load_failure(folder), Contains("has label 10 at byte 11: labels must be 0 to 9"));
}

TEST_CASE("IdxFiles: bytes after the last sample are an error") {
  const TempFolder folder;
  write_split(folder.path(), 2);
  Bytes images = idx_images(2);
  images.push_back(0);
  write_file(folder / kImages, images);
  CHECK_THAT(load_failure(folder),
             Contains("states 2 samples, which need 1584 bytes, but the file has 1585"));

  write_split(folder.path(), 2);
  std::filesystem::remove(folder / kLabels);
  Bytes packed = gzip(idx_labels(2));
  packed.push_back(0);
  write_file(folder / "train-labels-idx1-ubyte.gz", packed);
  CHECK_THAT(load_failure(folder), Contains("where its gzip stream ends, but ends at byte"));
}

TEST_CASE("IdxFiles: unpacking a gzip bomb stops at the size in the header") {
  const TempFolder folder;
  write_split(folder.path(), 2);
  std::filesystem::remove(folder / kLabels);
  Bytes labels = idx_labels(2);
  labels.resize(64 << 20);
  write_file(folder / "train-labels-idx1-ubyte.gz", gzip(labels));
  CHECK_THAT(load_failure(folder), Contains("continues after byte 10, where its 2 samples end"));
}

TEST_CASE("IdxFiles: more samples than a gzip file can hold are an error before allocation") {
  const TempFolder folder;
  write_split(folder.path(), 2);
  std::filesystem::remove(folder / kImages);
  Bytes images = idx_images(2);
  put(images, 4, 0xFFFFFFFF);
  write_file(folder / "train-images-idx3-ubyte.gz", gzip(images));
  CHECK_THAT(load_failure(folder),
             Contains("its header (byte 4) states 4,294,967,295 samples, which need ") &&
                 Contains("but the file has at most ") && Contains(" after unpacking"));
}

TEST_CASE("IdxFiles: the error for a missing file or folder names it") {
  const TempFolder folder;
  CHECK_THAT(load_failure(folder),
             Contains("contains neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"));
  CHECK_THAT(
      failure_of([&] { (void)IdxFiles(options_of(folder / "nowhere"), "fashion_mnist").load(); }),
      Contains("nowhere does not exist") && Contains("'scripts/fetch-data fashion_mnist'"));
  std::filesystem::create_directory(folder / kImages);
  write_file(folder / kLabels, idx_labels(2));
  CHECK_THAT(load_failure(folder), Contains("it is not a regular file"));
}

TEST_CASE("IdxFiles: errors do not print control characters of a folder name") {
  const TempFolder folder;
  const std::string failure =
      failure_of([&] { (void)IdxFiles(options_of(folder / "a\x1b[31m"), "mnist").load(); });
  CHECK(failure.find('\x1b') == std::string::npos);
}

TEST_CASE("mnist: the real data set has its known size, mean and standard deviation") {
  const char* data = std::getenv("TRAINCTL_DATA");
  if (data == nullptr) skip("TRAINCTL_DATA is not set");
  const auto train = IdxFiles(options_of(std::filesystem::path(data) / "mnist"), "mnist").load();
  const auto test =
      IdxFiles(options_of(std::filesystem::path(data) / "mnist", spec::Split::test), "mnist")
          .load();
  REQUIRE(train->size() == 60'000);
  REQUIRE(test->size() == 10'000);
  double sum = 0;
  double squares = 0;
  Loader loader({train, {}, {}}, {.batch_size = 1000, .order = Order::sequential});
  loader.start_epoch(0);
  while (const Batch* batch = loader.next()) {
    for (const std::byte pixel : batch->fields[0]) {
      const double value = std::to_integer<int>(pixel) / 255.0;
      sum += value;
      squares += value * value;
    }
  }
  const double count = 60'000.0 * 784;
  const double mean = sum / count;
  CHECK(std::abs(mean - 0.1307) < 0.00005);
  CHECK(std::abs(std::sqrt(squares / count - mean * mean) - 0.3081) < 0.00005);
}

TEST_CASE("IdxFiles: a pipe instead of a file is an error and does not block") {
  for (const char* name : {kImages, kLabels}) {
    const TempFolder folder;
    write_split(folder.path(), 3);
    std::filesystem::remove(folder / name);
    REQUIRE(::mkfifo((folder / name).c_str(), 0600) == 0);
    CHECK_THAT(facts_failure(folder),
               StartsWith("9: cannot read ") &&
                   Contains(std::string(name) + ": it is not a regular file"));
    CHECK_THAT(load_failure(folder), Contains("it is not a regular file"));
  }
}
