#include "data/formats/npy.hpp"

#include "data/sources.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// Formats an array like numpy.save: the header is padded so that the data starts at a multiple of
/// 64.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                int version = 1, const std::string& order = "False") {
  std::string dict =
      "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  const std::size_t front = version == 1 ? 10 : 12;
  while ((front + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  std::string length(front - 8, '\0');
  length[0] = static_cast<char>(dict.size() & 255);
  length[1] = static_cast<char>(dict.size() >> 8);
  return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' + length + dict + data;
}

class Saved {
 public:
  spec::dataset::Npy features(const std::string& x, const std::string& y) {
    spec::dataset::Npy options = images(x, y);
    std::swap(options.images, options.features);
    return options;
  }
  spec::dataset::Npy images(const std::string& x, const std::string& y) {
    put_text(folder_ / "x.npy", x);
    put_text(folder_ / "y.npy", y);
    spec::dataset::Npy options;
    options.images = folder_ / "x.npy";
    options.labels = folder_ / "y.npy";
    return options;
  }
  std::string failure(const spec::dataset::Npy& options) {
    const std::string found = failure_of([&] { (void)build("npy", options); });
    if (found.find("finite") == std::string::npos)
      CHECK(failure_of([&] { (void)facts("npy", options); }) == found);
    return found;
  }

 private:
  TempFolder folder_;
};

const std::string kTwoLabels = npy("<i8", "(2,)", raw<std::int64_t>({1, 0}));

}  // namespace

TEST_CASE("npy: gray and RGB images of every format version are mapped") {
  Saved saved;
  for (const int version : {1, 2, 3}) {
    const auto gray =
        build("npy", saved.images(npy("|u1", "(2, 1, 3)", "abcdef", version), kTwoLabels));
    CHECK(gray->layout() == Layout{{"image", Dtype::u8, {1, 3, 1}}, {"label", Dtype::i64, {}}});
    CHECK(gray->classes() == 2);
    CHECK(values<char>(*gray, 1, 0) == std::vector<char>{'d', 'e', 'f'});
    CHECK(stored(*gray, 0) == "abc");
    CHECK(values<std::int64_t>(*gray, 0, 1) == std::vector<std::int64_t>{1});
  }
  const auto rgb = build("npy", saved.images(npy("|u1", "(2, 1, 1, 3)", "abcdef"), kTwoLabels));
  CHECK(rgb->layout()[0].shape == std::vector<std::int64_t>{1, 1, 3});
}

TEST_CASE("npy: features of every number type become float32") {
  Saved saved;
  const std::vector<float> expected{0, 1, 2.0F, 100};
  const std::string x[] = {npy("<f4", "(2, 2)", raw<float>({0, 1, 2, 100})),
                           npy("<f8", "(2, 2)", raw<double>({0, 1, 2, 100})),
                           npy("<f2", "(2, 2)", raw<std::uint16_t>({0, 0x3C00, 0x4000, 0x5640})),
                           npy("|i1", "(2, 2)", raw<std::int8_t>({0, 1, 2, 100})),
                           npy("<u2", "(2, 2)", raw<std::uint16_t>({0, 1, 2, 100})),
                           npy("<i4", "(2, 2)", raw<std::int32_t>({0, 1, 2, 100})),
                           npy("<u8", "(2, 2)", raw<std::uint64_t>({0, 1, 2, 100}))};
  for (const std::string& bytes : x) {
    const auto dataset = build("npy", saved.features(bytes, kTwoLabels));
    CHECK(dataset->layout()[0] == Field{"features", Dtype::f32, {2}});
    CHECK(dataset->images() == nullptr);
    auto all = values<float>(*dataset, 0, 0);
    for (const float value : values<float>(*dataset, 1, 0)) all.push_back(value);
    CHECK(all == expected);
  }
}

TEST_CASE("npy: float labels are targets, and integer labels are classes") {
  Saved saved;
  const std::string x = npy("<f4", "(2, 1)", raw<float>({5, 6}));
  const auto targets =
      build("npy", saved.features(x, npy("<f8", "(2, 2)", raw<double>({1, 2, 3, 4.5}))));
  CHECK(targets->layout()[1] == Field{"label", Dtype::f32, {2}});
  CHECK(targets->classes() == 0);
  CHECK(values<float>(*targets, 1, 1) == std::vector<float>{3, 4.5});
  auto options = saved.features(x, npy("|u1", "(2, 1)", raw<std::uint8_t>({3, 1})));
  CHECK(build("npy", options)->classes() == 4);
  options.classes = 10;
  CHECK(build("npy", options)->classes() == 10);
  options.classes = 3;
  CHECK_THAT(saved.failure(options),
             Contains("y.npy has label 3 at byte 128: labels must be 0 to 2"));
}

TEST_CASE("npy: every truncation is an error with file and byte") {
  Saved saved;
  const std::string whole = npy("<f4", "(2, 2)", raw<float>({1, 2, 3, 4}));
  for (std::size_t length = 0; length <= whole.size() + 1; ++length) {
    if (length == whole.size()) continue;
    const std::string failure =
        saved.failure(saved.features((whole + "x").substr(0, length), kTwoLabels));
    const std::string bytes = std::to_string(length);
    const bool has_place = failure.find("x.npy ends at byte " + bytes) != std::string::npos ||
                           failure.find("x.npy has " + bytes + " byte") != std::string::npos;
    if (!failure.starts_with("9: ") || !has_place) FAIL(length << ": " << failure);
  }
}

TEST_CASE("npy: the error for an unsupported array says what to do") {
  Saved saved;
  const auto failure = [&](const std::string& x) {
    return saved.failure(saved.features(x, kTwoLabels));
  };
  const std::string four = raw<float>({1, 2, 3, 4});
  CHECK_THAT(failure(npy("<f4", "(2, 2)", four, 1, "True")),
             Contains("Fortran order\nhint: save numpy.ascontiguousarray"));
  CHECK_THAT(failure(npy(">f4", "(2, 2)", four)),
             Contains("big-endian numbers (>f4)\nhint: save the array with .astype('<f4')"));
  CHECK_THAT(failure(npy("|O", "(2, 2)", four)),
             Contains("Python objects, which are never unpickled"));
  CHECK_THAT(failure(npy("<c8", "(2,)", four)), Contains("items of type '<c8'"));
  CHECK_THAT(failure(npy("<f4", "(4,)", four)), Contains("x.npy has 4 rows, but "));
  CHECK_THAT(failure(npy("<f4", "(0, 2)", "")), Contains("has no rows"));
  CHECK_THAT(failure(npy("<f4", "()", "1234")), Contains("has no rows"));
  CHECK_THAT(failure(npy("<f4", "(2, 2147483647, 2147483647, 2147483647, 2147483647)", four)),
             Contains("its header describes an array with more data"));
  CHECK_THAT(failure(npy("<f4", "(2, -2)", four)), Contains("has '-2' in its shape (byte"));
  CHECK_THAT(failure(npy("<f4", "(2, 2), 'shape': (2, 2)", four)),
             Contains("has a .npy header that is invalid at byte"));
  CHECK_THAT(failure("\x93NUMPY\x04" + std::string(100, '\0')),
             Contains("has version 4 of the .npy format (byte 6): it must be 1 to 3"));
  CHECK_THAT(failure(std::string("PK\x03\x04 a zip file of arrays")),
             Contains("must begin with \\x93NUMPY, as a .npy file does"));
  CHECK_THAT(failure(npy("<f4", "(2, 2)", raw<float>({1, 2, NAN, 4}))),
             Contains("contains nan in row 1, at byte 136: numbers must be finite"));
  CHECK_THAT(failure(npy("<f8", "(2, 1)", raw<double>({1, 1e300}))),
             Contains("contains 1e+300 in row 1, at byte 136"));
  CHECK_THAT(saved.failure(saved.images(npy("<f4", "(2, 2)", four), kTwoLabels)),
             Contains("'images' must be uint8"));
  CHECK_THAT(
      saved.failure(saved.images(npy("|u1", "(2, 1, 1, 4)", std::string(8, 'x')), kTwoLabels)),
      Contains("contains u1 of shape (2, 1, 1, 4), but 'images' must be"));
  CHECK_THAT(saved.failure(saved.images(npy("|u1", "(2, 1)", "ab"),
                                        npy("<i8", "(2, 1, 1)", raw<std::int64_t>({0, 1})))),
             StartsWith("9: "));
  spec::dataset::Npy neither;
  CHECK_THAT(failure_of([&] { (void)build("npy", neither); }),
             StartsWith("2: set either 'images' or 'features'"));
}

TEST_CASE("parse_npy_header: a header with a changed byte is parsed or is a data error") {
  const std::string good = npy("<f4", "(2, 2)", raw<float>({1, 2, 3, 4}));
  for (std::size_t i = 0; i < 80; ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string bad = good;
      bad[i] = static_cast<char>(value);
      try {
        (void)parse_npy_header(std::as_bytes(std::span(bad)), bad.size(), "x.npy");
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::data) FAIL(error.what());
      }
    }
  }
}
