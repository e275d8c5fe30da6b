#include "support/growth.hpp"

#include "checkpoint/listing.hpp"
#include "checkpoint/parts.hpp"
#include "saves.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <fcntl.h>

#include <array>
#include <memory>

using namespace trainctl;

namespace {

namespace fs = std::filesystem;

/// Returns the weights of a model and different best weights.
std::vector<container::Entry> two_groups(std::size_t tensors) {
  static constexpr std::array<std::byte, 4> kNow{};
  static constexpr std::array<std::byte, 4> kBest{std::byte{1}};
  std::vector<container::Entry> entries;
  for (std::size_t i = 0; i < tensors; ++i) {
    const std::string name = "layer" + std::to_string(i) + ".weight";
    entries.push_back({"model/" + name, "F32", {1}, kNow});
    entries.push_back({"keeper/best." + name, "F32", {1}, kBest});
  }
  return entries;
}

/// Stores a checkpoint with a file of best weights, which the next checkpoint shares.
struct TwoSaves {
  explicit TwoSaves(std::size_t tensors) : entries(two_groups(tensors)) {
    first = store.begin(saves::moment_of(1));
    const checkpoint::StoredOnce stored = checkpoint::store_once(store, first, entries);
    const fs::path part = checkpoint::Store::part(first, 0);
    container::write(part, stored.part, {{"training", Json::object()}});
    manifest.parts = {
        {part.filename().string(), fs::file_size(part), container::File(part).header_checksum()}};
    manifest.shared = stored.shared;
    manifest.world_size = 1;
    store.commit(first, manifest);
    second = store.begin(saves::moment_of(2));
  }
  TempFolder folder;
  checkpoint::Store store{folder.path()};
  std::vector<container::Entry> entries;
  checkpoint::Manifest manifest = saves::manifest_of(1);
  fs::path first;
  fs::path second;
};

}  // namespace

TEST_CASE("growth: storing and reading shared tensors is linear in their number") {
  const auto storing = [](std::size_t tensors) {
    return [saves = std::make_shared<TwoSaves>(tensors)] {
      const auto stored = checkpoint::store_once(saves->store, saves->second, saves->entries);
      const fs::path file = saves->second / stored.shared.at(0).file;
      CHECK(fs::hard_link_count(file) == 2);
    };
  };
  CHECK(growth_per_doubling(storing, 500) <= kMostPerDoubling);
  const auto reading = [](std::size_t tensors) {
    return [saves = std::make_shared<TwoSaves>(tensors)] {
      (void)checkpoint::PartReader(saves->first, saves->manifest, 0);
    };
  };
  CHECK(growth_per_doubling(reading, 500) <= kMostPerDoubling);
}

TEST_CASE("growth: listing checkpoints is linear in their number") {
  const TempFolder folder;
  const auto listing = [&](std::size_t count) {
    const fs::path checkpoints = folder / std::to_string(count);
    for (std::size_t i = 0; !fs::exists(checkpoints / "last"); ++i) {
      const auto step = static_cast<std::int64_t>(10 * i);
      checkpoint::Manifest manifest = saves::manifest_of(step);
      manifest.world_size = 1;
      manifest.parts = {{checkpoint::part_name(0), 0, 0}};
      fs::create_directories(checkpoints / saves::name_of(step));
      put_text(checkpoints / ("corrupt-" + saves::name_of(step)) / "rank_0.part", "x");
      const fs::path file = checkpoints / saves::name_of(step) / checkpoint::kManifestName;
      const Fd out(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      container::write_to(out.get(), {}, checkpoint::to_json(manifest), file.string());
      if (i + 1 == count) fs::create_symlink(saves::name_of(step), checkpoints / "last");
    }
    return [checkpoints, count] {
      const auto rows = checkpoint::survey(checkpoints, checkpoint::Depth::manifests);
      REQUIRE(rows.size() == 2 * count);
      CHECK(rows.front().is_last);
      CHECK(rows.front().state == checkpoint::State::committed);
    };
  };
  CHECK(growth_per_doubling(listing, 10) <= kMostPerDoubling);
}

TEST_CASE("growth: reading a manifest is linear in its parts and shared groups") {
  const auto reading = [](std::size_t count) {
    checkpoint::Manifest manifest = saves::manifest_of(1);
    manifest.world_size = static_cast<int>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(i);
      manifest.parts.push_back({checkpoint::part_name(static_cast<int>(i)), 1, 1});
      manifest.shared.push_back({"group" + number, "", "w" + number + ".safetensors", 1, 1});
    }
    return [text = to_line(checkpoint::to_json(manifest))] {
      (void)checkpoint::from_json(Json::parse(text), "manifest");
    };
  };
  CHECK(growth_per_doubling(reading, 100) <= kMostPerDoubling);
}
