#pragma once

#include "base/error.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/store.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

/// Saves checkpoints whose bytes depend only on step and rank. An epoch has ten steps.
namespace saves {

namespace fs = std::filesystem;
using namespace trainctl::checkpoint;

inline constexpr int kRanks = 2;
inline constexpr std::size_t kBytes = 5000;

inline std::int64_t epoch_of(std::int64_t step) { return step / 10; }

inline Moment moment_of(std::int64_t step) { return {step, epoch_of(step), step % 10 > 0}; }

inline std::string name_of(std::int64_t step) { return folder_name(moment_of(step)); }

inline std::vector<std::byte> payload(std::int64_t step, int rank) {
  std::vector<std::byte> bytes(kBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t mixed = i * 31 + static_cast<std::size_t>(step) * 17 +
                              static_cast<std::size_t>(rank) * 101 + i / 256;
    bytes[i] = static_cast<std::byte>(mixed & 0xff);
  }
  return bytes;
}

inline Manifest::Part write_part(const fs::path& checkpoint, std::int64_t step, int rank) {
  const std::vector<std::byte> bytes = payload(step, rank);
  const std::vector<trainctl::container::Entry> entries{
      {"model/fc.weight", "U8", {static_cast<std::int64_t>(kBytes)}, bytes}};
  const fs::path path = Store::part(checkpoint, rank);
  trainctl::container::write(path, entries, {{"rank", rank}});
  return {path.filename().string(), fs::file_size(path),
          trainctl::container::File(path).header_checksum()};
}

inline Manifest manifest_of(std::int64_t step) {
  Manifest manifest;
  manifest.epoch = epoch_of(step);
  manifest.step_in_epoch = step % 10;
  manifest.global_step = step;
  manifest.world_size = kRanks;
  manifest.reason = "every_n_steps";
  manifest.value = 0.1 * static_cast<double>(step);
  manifest.monitor = "val/loss";
  manifest.config_hash = "00ff";
  manifest.written_at = "2026-11-21T05:01:48Z";
  manifest.version = "1.2.3";
  manifest.facts = {{"torch", "2.11.0"}, {"threads", "2"}};
  return manifest;
}

/// Begins a checkpoint, writes all its parts, and returns its future manifest.
inline Manifest begin(Store& store, std::int64_t step, fs::path& checkpoint) {
  checkpoint = store.begin(moment_of(step));
  Manifest manifest = manifest_of(step);
  for (int rank = 0; rank < kRanks; ++rank)
    manifest.parts.push_back(write_part(checkpoint, step, rank));
  return manifest;
}

inline fs::path save(Store& store, std::int64_t step) {
  fs::path checkpoint;
  const Manifest manifest = begin(store, step, checkpoint);
  store.commit(checkpoint, manifest);
  return checkpoint;
}

/// Returns whether all bytes equal the saved ones.
inline bool holds(const fs::path& checkpoint, std::int64_t step) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const trainctl::container::File file(Store::part(checkpoint, rank));
    const auto* entry = file.find("model/fc.weight");
    if (entry == nullptr || !std::ranges::equal(entry->bytes, payload(step, rank))) return false;
  }
  return true;
}

}  // namespace saves
