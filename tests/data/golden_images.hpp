#pragma once

#include "base/json.hpp"
#include "data/image/image.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

// torchvision's output of small pictures: tests/golden/torch/transforms_NAME.json, made by
// make/transforms.py.

namespace trainctl::data::testing {

struct Picture {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;
  [[nodiscard]] ImageView view() const { return {pixels.data(), shape}; }
};

inline Picture read_picture(const Json& json) {
  Picture picture;
  picture.shape = {json["shape"][0], json["shape"][1], json["shape"][2]};
  const std::string hex = json["pixels"];
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    picture.pixels.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return picture;
}

/// How far a picture may be from torchvision's: bytes that differ, as a share, and by how much.
struct Tolerance {
  int levels = 0;
  double share = 0;
};

using Operation =
    std::function<void(const Json& parameters, const ImageView& input, ImageTarget& output)>;

inline Json golden_transforms(const std::string& name) {
  std::ifstream file(std::string(TRAINCTL_GOLDEN_DIR) + "/torch/transforms_" + name + ".json");
  return Json::parse(file);
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

/// Runs every case of a golden file through the operation of its name. An operation that is missing
/// fails. What reads the nearest pixel has no tolerance.
inline void check_golden(const std::string& name,
                         const std::map<std::string, Operation>& operations,
                         const Tolerance& tolerance = {}) {
  const Json golden = golden_transforms(name);
  std::map<std::string, Picture> pictures;
  for (const Json& one : golden["pictures"]) pictures[one["name"]] = read_picture(one);
  REQUIRE(!golden["cases"].empty());
  for (const Json& one : golden["cases"]) {
    Json parameters = one;
    parameters.erase("pixels");
    INFO(parameters.dump());
    std::vector<std::uint8_t> scratch;
    ImageTarget output(scratch);
    operations.at(one["op"])(one, pictures.at(one["picture"]).view(), output);
    compare(read_picture(one), output,
            one.value("mode", "") == "nearest" ? Tolerance{} : tolerance);
  }
}

}  // namespace trainctl::data::testing
