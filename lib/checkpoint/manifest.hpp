#pragma once

#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/folder.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::checkpoint {

/// The description of a checkpoint: the file `manifest` of its folder, a container without entries.
/// It is written last, so a folder without a manifest is not a checkpoint.
struct Manifest {
  /// The file of a rank.
  struct Part {
    std::string file;  // "rank_0.part"
    std::uint64_t bytes = 0;
    std::uint32_t checksum = 0;  // container::File::header_checksum(), which covers the whole file
  };
  /// A group of rank 0's tensors that is not in its part. It either equals another group,
  /// `same_as`, with the same names, or is a safetensors file in the checkpoint's folder.
  struct SharedGroup {
    std::string group = {};      // name prefix: "keeper/best."
    std::string same_as = {};    // "model/"; empty: the tensors are in `file`
    std::string file = {};       // "best.safetensors"
    std::uint64_t bytes = 0;     // size of the file
    std::uint32_t checksum = 0;  // CRC-32C of the file
  };

  /// Index, from 0, of the epoch in which a resumed run starts. JSON counts epochs from 1:
  /// `next_epoch` is this epoch, and `epoch` is the epoch of the last step, as in the folder name.
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;  // trained batches of that epoch
  std::int64_t global_step = 0;
  int world_size = 1;
  std::string reason;           // "every_n_epochs", "best", "signal", ...
  std::optional<double> value;  // of the monitor; absent if not finite
  std::string monitor;
  std::vector<Part> parts;               // by rank
  std::vector<SharedGroup> shared = {};  // a group follows its `same_as`
  std::string config_hash;
  std::string written_at;
  std::string version;
  std::map<std::string, std::string> facts;  // "torch", "threads", "cpu": affect bitwise resume

  [[nodiscard]] Moment moment() const { return {global_step, epoch, step_in_epoch > 0}; }
};

/// An Error(checkpoint) for a checkpoint of another format version. It is not damaged, so it is
/// never renamed, replaced or removed.
class UnsupportedFormat : public Error {
 public:
  UnsupportedFormat(std::int64_t found, std::int64_t expected);
};

/// Throws Error(checkpoint) that names the invalid number or part.
void check(const Manifest& manifest);

/// Returns the JSON document of a manifest, which from_json() reads back.
Json to_json(const Manifest& manifest);
/// Parses a manifest strictly: throws Error(checkpoint) with `label` for a missing or unknown key,
/// a wrong type, and everything that check() rejects; UnsupportedFormat for another format.
Manifest from_json(const Json& document, const std::string& label);

}  // namespace trainctl::checkpoint
