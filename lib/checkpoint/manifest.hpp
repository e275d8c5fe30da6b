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

/// What a checkpoint says of itself: the file `manifest` of its folder, a container without
/// entries. It is written last: a folder without it is no checkpoint.
struct Manifest {
  /// A rank's file.
  struct Part {
    std::string file;  // "rank_0.part"
    std::uint64_t bytes = 0;
    std::uint32_t checksum = 0;  // container::File::header_checksum(), which covers all the rest
  };
  /// A group of rank 0's tensors that its part does not store: either the bytes of `same_as`,
  /// another group of rank 0 with the same names, or a safetensors file in the checkpoint's folder.
  struct SharedGroup {
    std::string group = {};      // how the names begin: "keeper/best."
    std::string same_as = {};    // "model/"; empty: the tensors are in `file`
    std::string file = {};       // "best.safetensors"
    std::uint64_t bytes = 0;     // of the file
    std::uint32_t checksum = 0;  // CRC-32C of the file
  };

  /// Index, from 0, of the epoch with which a resumed run starts. JSON counts epochs from 1: there
  /// it is `next_epoch`, and `epoch` is that of the last step, as in the name of the folder.
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;  // batches of that epoch that are trained on
  std::int64_t global_step = 0;
  int world_size = 1;
  std::string reason;           // "every_n_epochs", "best", "signal", ...
  std::optional<double> value;  // of the monitor; nothing where it was not finite
  std::string monitor;
  std::vector<Part> parts;               // by rank
  std::vector<SharedGroup> shared = {};  // a group comes after the one that `same_as` names
  std::string config_hash;
  std::string written_at;
  std::string version;
  std::map<std::string, std::string> facts;  // "torch", "threads", "cpu": is a resume bitwise?

  [[nodiscard]] Moment moment() const { return {global_step, epoch, step_in_epoch > 0}; }
};

/// An Error(checkpoint): another version of the program wrote the checkpoint. It is not damaged, so
/// nothing moves, replaces or removes it.
class UnsupportedFormat : public Error {
 public:
  UnsupportedFormat(std::int64_t found, std::int64_t expected);
};

/// Throws Error(checkpoint) naming the number or the part that cannot be.
void check(const Manifest& manifest);

Json to_json(const Manifest& manifest);
/// Strict: a key that is missing, unknown or of another type, and what check() refuses, throw
/// Error(checkpoint) after `label`; a manifest of another format throws UnsupportedFormat.
Manifest from_json(const Json& document, const std::string& label);

}  // namespace trainctl::checkpoint
