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

/// What rank 0 writes: each tensor once.
struct StoredOnce {
  std::vector<container::Entry> part;         // the entries of its part
  std::vector<Manifest::SharedGroup> shared;  // the groups that are stored elsewhere
};

/// Takes copies of weights out of rank 0's entries. The best weights become a safetensors file in
/// `checkpoint`, as a hard link to the file of an earlier checkpoint that holds the same bytes, or
/// written where there is none. Groups that equal them, such as the model at the best epoch, are
/// not stored again, nor is an average that equals the model. `best.safetensors` next to the
/// checkpoints is never linked: whoever writes into that file changes no checkpoint. Throws
/// Error(resource).
StoredOnce store_once(const Store& store, const fs::path& checkpoint,
                      std::span<const container::Entry> entries);

/// All tensors that one rank saved, wherever the checkpoint stores them. The checkpoint is verified
/// as far as it is read. The entries point into this object.
class PartReader {
 public:
  /// Throws as verify().
  PartReader(const fs::path& checkpoint, const Manifest& manifest, int rank);
  ~PartReader();
  PartReader(PartReader&& other) noexcept;
  PartReader& operator=(PartReader&& other) noexcept;
  PartReader(const PartReader&) = delete;
  PartReader& operator=(const PartReader&) = delete;

  /// Those of the part in the order of its data, then the shared groups.
  [[nodiscard]] const std::vector<container::Entry>& entries() const { return entries_; }
  /// Null where there is none of that name.
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
