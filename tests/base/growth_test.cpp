#include "support/growth.hpp"

#include "base/safetensors.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <array>

using namespace trainctl;

namespace {

std::vector<safetensors::View> many_tensors(std::size_t count) {
  static constexpr std::array<std::byte, 4> kNumber{};
  std::vector<safetensors::View> tensors;
  for (std::size_t i = 0; i < count; ++i)
    tensors.push_back({"layer" + std::to_string(i) + ".weight", "F32", {1}, kNumber});
  return tensors;
}

}  // namespace

TEST_CASE("growth: writing and reading a safetensors file is linear in its tensors") {
  const TempFolder folder;
  const std::filesystem::path path = folder / "many.safetensors";
  const auto writing = [&](std::size_t count) {
    return [&path, tensors = many_tensors(count)] { safetensors::write(path, tensors, {}); };
  };
  CHECK(growth_per_doubling(writing, 1'000) <= kMostPerDoubling);
  const auto reading = [&](std::size_t count) {
    safetensors::write(path, many_tensors(count), {});
    return [&path] { (void)safetensors::File(path); };
  };
  CHECK(growth_per_doubling(reading, 1'000) <= kMostPerDoubling);
}

TEST_CASE("growth: reading a safetensors file is linear in its metadata") {
  const TempFolder folder;
  const std::filesystem::path path = folder / "metadata.safetensors";
  const auto prepare = [&](std::size_t count) {
    std::map<std::string, std::string> metadata;
    for (std::size_t i = 0; i < count; ++i) metadata["key" + std::to_string(i)] = "value";
    safetensors::write(path, many_tensors(1), metadata);
    return [&path] { (void)safetensors::File(path); };
  };
  CHECK(growth_per_doubling(prepare, 500) <= kMostPerDoubling);
}
