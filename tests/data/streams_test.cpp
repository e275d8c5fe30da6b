#include "data/sources.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

spec::dataset::Tokens stream(const TempFolder& folder, const std::string& bytes,
                             std::int64_t length) {
  put_text(folder / "t.bin", bytes);
  spec::dataset::Tokens options;
  options.path = folder / "t.bin";
  options.sequence_length = length;
  return options;
}

std::string counting16(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(i), bytes += '\1';
  return bytes;
}

using Numbers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("tokens: a sample is a window, and its targets are the same window one token later") {
  const TempFolder folder;
  auto options = stream(folder, counting16(10), 3);
  const auto dataset = build("tokens", options);
  CHECK(dataset->layout() == Layout{{"tokens", Dtype::i64, {3}}, {"targets", Dtype::i64, {3}}});
  CHECK(dataset->size() == 3);
  CHECK(values<std::int64_t>(*dataset, 2, 0) == Numbers{262, 263, 264});
  CHECK(values<std::int64_t>(*dataset, 2, 1) == Numbers{263, 264, 265});
  options.stride = 1;
  CHECK(facts("tokens", options).samples == 7);
  CHECK(values<std::int64_t>(*build("tokens", options), 6, 1) == Numbers{263, 264, 265});
  options.stride = 7;
  CHECK(facts("tokens", options).samples == 1);
  options.dtype = spec::dataset::TokenType::uint32;
  options.header_bytes = 4;
  CHECK(values<std::int64_t>(*build("tokens", options), 0, 0)[0] == 0x01030102);
  CHECK(build("tokens", options)->fingerprint() != dataset->fingerprint());
}

TEST_CASE("tokens: a header of npy is an error that names header_bytes") {
  const TempFolder folder;
  std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (10,), }";
  header.resize(117, ' ');
  const std::string bytes =
      std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + counting16(10);
  auto options = stream(folder, bytes, 3);
  CHECK_THAT(failure_of([&] { (void)build("tokens", options); }),
             StartsWith("9: ") && Contains("t.bin is a .npy file of type u2") &&
                 Contains("set 'header_bytes: 128'"));
  options.header_bytes = 128;
  CHECK(values<std::int64_t>(*build("tokens", options), 0, 0) == Numbers{256, 257, 258});
}

TEST_CASE("tokens: a file that ends within a token or is too short for a sample is an error") {
  const TempFolder folder;
  for (std::size_t length = 0; length < 20; ++length) {
    const std::string failure = failure_of(
        [&] { (void)facts("tokens", stream(folder, counting16(10).substr(0, length), 3)); });
    if ((length % 2 == 1 || length < 8) != failure.starts_with("9: "))
      FAIL(length << ": " << failure);
    if (!failure.empty() &&
        failure.find("t.bin ends at byte " + std::to_string(length)) == std::string::npos)
      FAIL(failure);
  }
  auto options = stream(folder, "abc", 1);
  options.header_bytes = 4;
  CHECK_THAT(failure_of([&] { (void)build("tokens", options); }),
             Contains("t.bin ends at byte 3, but its header must have 4 bytes ('header_bytes')"));
}

TEST_CASE("tokens: a token outside of the vocabulary is an error with its place") {
  const TempFolder folder;
  auto options = stream(folder, counting16(10), 3);
  options.vocab_size = 264;
  const auto dataset = build("tokens", options);
  CHECK(dataset->classes() == 264);
  CHECK(values<std::int64_t>(*dataset, 1, 0) == Numbers{259, 260, 261});
  CHECK_THAT(failure_of([&] { (void)values<std::int64_t>(*dataset, 2, 0); }),
             StartsWith("9: ") &&
                 Contains("t.bin has token 264 in sample 2 (between bytes 12 and 20), but "
                          "tokens must be less than 'vocab_size' (264)"));
}

TEST_CASE("synthetic_images: pixels depend on seed, split and index, and read() equals fill()") {
  spec::dataset::SyntheticImages options;
  options.height = 5;
  options.width = 3;
  options.classes = 7;
  options.samples = 700;
  const auto dataset = build("synthetic_images", options);
  CHECK(dataset->layout() == Layout{{"image", Dtype::u8, {5, 3, 3}}, {"label", Dtype::i64, {}}});
  const auto first = values<char>(*dataset, 1, 0);
  CHECK(stored(*dataset, 1) == std::string(first.begin(), first.end()));
  CHECK(stored(*dataset, 2) != stored(*dataset, 1));
  std::vector<int> counts(7);
  for (const std::int64_t label : labels_of(*dataset)) ++counts.at(static_cast<std::size_t>(label));
  for (const int count : counts) CHECK(std::abs(count - 100) < 60);  // 6 standard deviations
  auto other = options;
  other.seed = 1;
  CHECK(stored(*build("synthetic_images", other), 1) != stored(*dataset, 1));
  other = options;
  other.split = spec::Split::test;
  CHECK(stored(*build("synthetic_images", other), 1) != stored(*dataset, 1));
  CHECK(build("synthetic_images", other)->fingerprint() != dataset->fingerprint());
  other = options;
  other.samples = 2;
  CHECK(stored(*build("synthetic_images", other), 1) == stored(*dataset, 1));
}

TEST_CASE("synthetic_images: pixels are the same on every machine and in every version") {
  spec::dataset::SyntheticImages options;
  options.height = options.width = 2;
  const auto pixels = values<std::uint8_t>(*build("synthetic_images", options), 9'999, 0);
  CHECK(std::vector<int>(pixels.begin(), pixels.begin() + 4) ==
        std::vector<int>{163, 172, 115, 192});
}
