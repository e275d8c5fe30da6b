#pragma once

#include "base/json.hpp"
#include "data/image/image.hpp"
#include "support/golden.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::data::testing {

/// A picture with its memory.
struct Picture {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] ImageView view() const { return {pixels.data(), shape}; }
};

/// The picture of tests/golden/make/images.py.
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

/// The cases of one kind in tests/golden/torch/NAME.json.
inline Json golden_cases(const std::string& name, const std::string& kind) {
  return Json::parse(golden::read(std::string(TRAINCTL_GOLDEN_DIR) + "/torch/" + name + ".json"))
      .at(kind);
}

inline ImageShape shape_of(const Json& list) { return {list[0], list[1], list[2]}; }

inline Picture golden_picture(const Json& one) {
  return {shape_of(one["shape"]), from_hex(one["pixels"].get<std::string>())};
}

/// The largest difference of two pixels; 256 where the shapes differ.
inline int distance(const Picture& a, const Picture& b) {
  if (!(a.shape == b.shape) || a.pixels.size() != b.pixels.size()) return 256;
  int most = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i)
    most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  return most;
}

}  // namespace trainctl::data::testing
