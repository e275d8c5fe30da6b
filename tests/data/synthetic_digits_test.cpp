#include "data/dataset/synthetic_digits.hpp"

#include "base/hash.hpp"
#include "data/core/registry.hpp"
#include "data/fakes.hpp"
#include "data/loader/measurements.hpp"
#include "data/refusing_thread.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

#include <array>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

using Picture = std::array<std::uint8_t, kDigitPixels>;

Picture draw(const DigitKey& key) {
  Picture picture{};
  render_digit(key, picture);
  return picture;
}

config::Stage stage_of(spec::Split split, std::int64_t samples) {
  spec::dataset::SyntheticDigits options;
  options.split = split;
  options.samples = samples;
  return config::make_stage("dataset", "synthetic_digits", options);
}

}  // namespace

TEST_CASE("synthetic_digits: pixels are the same on every machine and in every version") {
  std::uint64_t digest = 0;
  for (std::uint64_t index = 0; index < 500; ++index) {
    Picture picture{};
    const std::uint8_t label =
        render_digit({0, static_cast<std::uint32_t>(index % 2), index}, picture);
    digest = hash_bytes(std::as_bytes(std::span(picture)), digest + label);
  }
  CHECK(to_hex(digest) == "a5973273585dd59e");
}

TEST_CASE("synthetic_digits: pixels are the same if no further thread can be started") {
  const auto digest = [] {
    const auto stage = stage_of(spec::Split::train, 11'000);
    const auto dataset = builtin_catalog().datasets.at("synthetic_digits")(stage);
    return digest_epochs({dataset, {}, {}}, LoaderOptions(), 1).digest;
  };
  const auto expected = digest();
  without_threads([&] {
    if (digest() != expected) throw std::runtime_error("other digits");
  });
}

TEST_CASE("render_digit: the image depends on seed, split and index") {
  const Picture base = draw({1, 0, 5});
  CHECK(draw({1, 0, 5}) == base);
  CHECK(draw({2, 0, 5}) != base);
  CHECK(draw({1, 1, 5}) != base);
  CHECK(draw({1, 0, 6}) != base);
}

TEST_CASE("render_digit: the classes are equally frequent") {
  std::array<int, 10> counts{};
  Picture picture{};
  for (std::uint64_t index = 0; index < 5000; ++index)
    ++counts.at(render_digit({0, 0, index}, picture));
  for (const int count : counts) CHECK(std::abs(count - 500) < 130);  // 6 standard deviations
}

TEST_CASE("synthetic_digits: a smaller set is a prefix of a larger one that several threads draw") {
  const auto build = builtin_catalog().datasets.at("synthetic_digits");
  const auto small = build(stage_of(spec::Split::train, 30));
  const auto large = build(stage_of(spec::Split::train, 11'000));
  CHECK(small->size() == 30);
  CHECK(small->classes() == 10);
  for (const std::int64_t index : {0, 29}) {
    std::vector<std::byte> pixels[2] = {std::vector<std::byte>(784), std::vector<std::byte>(784)};
    std::vector<std::byte> label(8);
    const std::span<std::byte> first[] = {pixels[0], label};
    const std::span<std::byte> second[] = {pixels[1], label};
    small->fill({&index, 1}, first);
    large->fill({&index, 1}, second);
    CHECK(pixels[0] == pixels[1]);
  }
  CHECK(build(stage_of(spec::Split::test, 30))->fingerprint() != small->fingerprint());
}

TEST_CASE("render_digit: no digit is empty or fills its image") {
  for (std::uint64_t index = 0; index < 2000; ++index) {
    int bright = 0;
    for (const std::uint8_t pixel : draw({3, 0, index})) bright += pixel > 80 ? 1 : 0;
    if (bright < 10 || bright > 400)
      FAIL("sample " << index << " has " << bright << " bright pixels");
  }
}
