#include "support/growth.hpp"

#include "archives.hpp"
#include "base/error.hpp"
#include "support/catch.hpp"
#include "weights/pickle.hpp"
#include "weights/tensor_names.hpp"
#include "weights/torch_file.hpp"

#include <fmt/format.h>

using namespace trainctl::weights;
namespace archives = trainctl::weights::testing;

TEST_CASE("growth: reading a ZIP archive is linear in its files") {
  const auto prepare = [](std::size_t count) {
    std::vector<archives::File> files;
    for (std::size_t i = 0; i < count; ++i) files.emplace_back("data/" + std::to_string(i), "1234");
    return [archive = archives::zip_of(files)] {
      for (const ZipEntry& entry : zip_entries(archives::bytes_of(archive))) check_crc(entry);
    };
  };
  CHECK(growth_per_doubling(prepare, 200) <= kMostPerDoubling);
}

TEST_CASE("growth: reading a pickle is linear in its strings and integers") {
  const auto texts = [](std::size_t count) {
    std::vector<archives::File> items;
    for (std::size_t i = 0; i < count; ++i)
      items.emplace_back("key" + std::to_string(i), archives::text("value"));
    return [pickle = archives::pickled(archives::dict(items))] { (void)read_pickle(pickle); };
  };
  CHECK(growth_per_doubling(texts, 4'000) <= kMostPerDoubling);
  const auto numbers = [](std::size_t count) {
    const std::vector<std::uint64_t> values(count, 1);
    return [pickle = archives::pickled(archives::tuple(values))] { (void)read_pickle(pickle); };
  };
  CHECK(growth_per_doubling(numbers, 4'000) <= kMostPerDoubling);
}

TEST_CASE("growth: reading a torch.save file is linear in its tensors") {
  const auto prepare = [](std::size_t count) {
    std::vector<archives::File> files{{"archive/data.pkl", ""}, {"archive/byteorder", "little"}};
    std::vector<archives::File> items;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string key = std::to_string(i);
      items.emplace_back("layer" + key, archives::tensor(archives::storage(key, 4), 0, {4}, {1}));
      files.emplace_back("archive/data/" + key, std::string(16, '\x01'));
    }
    files[0].second = archives::pickled(archives::dict(items));
    return [archive = archives::zip_of(files)] {
      (void)read_torch_file(archives::bytes_of(archive), Verify::checksums);
    };
  };
  CHECK(growth_per_doubling(prepare, 200) <= kMostPerDoubling);
}

TEST_CASE("growth: matching names is linear in the tensors, also if none fits") {
  const auto entries = [](const std::string& prefix, std::size_t count) {
    std::vector<Entry> made;
    for (std::size_t i = 0; i < count; ++i)
      made.push_back({prefix + std::to_string(i) + ".weight", "F32", {2}});
    return made;
  };
  const auto fitting = [&](std::size_t count) {
    return [file = entries("a.layer", count), model = entries("layer", count)] {
      REQUIRE(match(file, model, {.renaming = {.key_map = {{"a.", ""}}}}).missing.empty());
    };
  };
  CHECK(growth_per_doubling(fitting, 200) <= kMostPerDoubling);
  const auto strange = [&](std::size_t count) {
    return [file = entries("a.other", count), model = entries("layer", count)] {
      REQUIRE_THROWS_AS(match(file, model, {}), trainctl::Error);
    };
  };
  CHECK(growth_per_doubling(strange, 200) <= kMostPerDoubling);
}

TEST_CASE("growth: renaming tensors is linear in their number and in the rules") {
  const auto renaming = [](std::size_t count) {
    std::vector<std::string> names;
    Renaming asked;
    for (std::size_t i = 0; i < count; ++i) {
      names.push_back(fmt::format("old{}.weight", i));
      asked.key_map[fmt::format("old{}.", i)] = fmt::format("new{}.", i);
    }
    return [names, asked = std::move(asked)] {
      std::vector<std::string> notes;
      REQUIRE(renamed(names, asked, notes).back().starts_with("new"));
    };
  };
  CHECK(growth_per_doubling(renaming, 100) <= kMostPerDoubling);
}

TEST_CASE("growth: a name that repeats a wrapper is not searched for all of them") {
  const auto unwrapping = [](std::size_t wrappers) {
    std::string name;
    for (std::size_t i = 0; i < wrappers; ++i) name += "module.";
    return [names = std::vector{name + "weight"}] {
      std::vector<std::string> notes;
      (void)renamed(names, {}, notes);
      REQUIRE(notes.size() == 4);
    };
  };
  CHECK(growth_per_doubling(unwrapping, 1'000) <= kMostPerDoubling);
}
