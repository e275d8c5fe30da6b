#pragma once

#include "base/json.hpp"
#include "data/image/image.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trainctl::data::testing {

/// A picture that owns its memory.
struct Picture {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] ImageView view() const { return {pixels.data(), shape}; }
};

/// Returns the same picture as picture() in tests/golden/make/images.py.
inline Picture noise(const ImageShape& shape) {
  Picture made{shape, std::vector<std::uint8_t>(shape.bytes())};
  for (std::size_t i = 0; i < made.pixels.size(); ++i) {
    made.pixels[i] =
        static_cast<std::uint8_t>(static_cast<std::uint32_t>((i + 1) * 2654435761U) >> 24);
  }
  return made;
}

inline std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

/// Reads tests/golden/torch/NAME.json.
inline Json golden_file_of(const std::string& name) {
  return Json::parse(golden::read(golden_folder() / ("torch/" + name + ".json")));
}

/// Returns the cases of one kind in that file.
inline Json golden_cases(const std::string& name, const std::string& kind) {
  return golden_file_of(name).at(kind);
}

inline ImageShape shape_of(const Json& list) { return {list[0], list[1], list[2]}; }

inline Picture golden_picture(const Json& one) {
  return {shape_of(one["shape"]), from_hex(one["pixels"].get<std::string>())};
}

/// Returns the largest difference of two pixels, or 256 when the shapes differ.
inline int distance(const Picture& a, const Picture& b) {
  if (!(a.shape == b.shape) || a.pixels.size() != b.pixels.size()) return 256;
  int most = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i)
    most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  return most;
}

/// The permitted difference from torchvision: in levels, and as the share of differing bytes.
struct Tolerance {
  int levels = 0;
  double share = 0;
};

using Operation =
    std::function<void(const Json& parameters, const ImageView& input, ImageTarget& output)>;

/// Reads the output of torchvision on small pictures, made by tests/golden/make/transforms.py.
inline Json golden_transforms(const std::string& name) {
  return golden_file_of("transforms_" + name);
}

inline void compare(const Picture& expected, const ImageTarget& made, const Tolerance& tolerance) {
  REQUIRE(made.shape() == expected.shape);
  std::size_t differing = 0;
  int most = 0;
  for (std::size_t i = 0; i < expected.pixels.size(); ++i) {
    const int distance = std::abs(made.view().pixels[i] - expected.pixels[i]);
    differing += distance != 0 ? 1 : 0;
    most = std::max(most, distance);
  }
  CHECK(most <= tolerance.levels);
  CHECK(static_cast<double>(differing) <=
        tolerance.share * static_cast<double>(expected.pixels.size()));
}

/// Runs every case of a golden file through the operation of its name; a missing operation fails.
/// Nearest-neighbor sampling has no tolerance.
inline void check_golden(const std::string& name,
                         const std::map<std::string, Operation>& operations,
                         const Tolerance& tolerance = {}) {
  const Json golden = golden_transforms(name);
  std::map<std::string, Picture> pictures;
  for (const Json& one : golden["pictures"]) pictures[one["name"]] = golden_picture(one);
  REQUIRE(!golden["cases"].empty());
  for (const Json& one : golden["cases"]) {
    Json parameters = one;
    parameters.erase("pixels");
    INFO(parameters.dump());
    std::vector<std::uint8_t> scratch;
    ImageTarget output(scratch);
    operations.at(one["op"])(one, pictures.at(one["picture"]).view(), output);
    compare(golden_picture(one), output,
            one.value("mode", "") == "nearest" ? Tolerance{} : tolerance);
  }
}

}  // namespace trainctl::data::testing
