#pragma once

#include "checkpoint/container.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/store.hpp"

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace trainctl::safetensors {
class File;
}

namespace trainctl::checkpoint {

/// The data that rank 0 writes, each tensor once.
struct StoredOnce {
  std::vector<container::Entry> part;         // the entries of its part
  std::vector<Manifest::SharedGroup> shared;  // groups stored elsewhere
};

/// Removes duplicate weights from rank 0's entries. The best weights become a safetensors file in
/// `checkpoint`: a hard link to the same bytes in an earlier checkpoint if possible, otherwise a
/// new file. Groups with equal tensors, such as the model at the best epoch or an average that
/// equals the model, are stored only once. The user's `best.safetensors` next to the checkpoints is
/// never hard-linked, so that writing to it cannot change a checkpoint. Throws Error(resource).
StoredOnce store_once(const Store& store, const fs::path& checkpoint,
                      std::span<const container::Entry> entries);

/// Reads all tensors that a rank saved, wherever the checkpoint stores them. Verifies everything
/// that it reads. The entries point into this object.
class PartReader {
 public:
  /// Throws like verify().
  PartReader(const fs::path& checkpoint, const Manifest& manifest, int rank);
  ~PartReader();
  PartReader(PartReader&& other) noexcept;
  PartReader& operator=(PartReader&& other) noexcept;
  PartReader(const PartReader&) = delete;
  PartReader& operator=(const PartReader&) = delete;

  /// Returns the entries of the part in file order, then the shared groups.
  [[nodiscard]] const std::vector<container::Entry>& entries() const { return entries_; }
  /// Returns null when there is no such entry.
  [[nodiscard]] const container::Entry* find(std::string_view name) const;
  [[nodiscard]] const Json& meta() const { return file_.meta(); }

 private:
  void add_alias(const Manifest::SharedGroup& shared);
  void add_file(const fs::path& checkpoint, const Manifest::SharedGroup& shared);
  void index();

  container::File file_;
  std::vector<std::unique_ptr<safetensors::File>> shared_;
  std::vector<container::Entry> entries_;
  std::vector<std::uint32_t> by_name_;  // indices of entries_, sorted by name
};

}  // namespace trainctl::checkpoint
