#pragma once

#include "base/files.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "study/folder/folder_lock.hpp"

#include <optional>
#include <string>

// Node 0 announces its endpoint to the other nodes in a file in a folder that all of them can
// access.

namespace trainctl::study {

/// The rendezvous data: one line of JSON in a file that only its owner can read.
struct RendezvousInfo {
  std::string run_id;
  launch::Endpoint endpoint;
  std::optional<launch::Token> token;  // absent: the other nodes already have it
  LockHolder coordinator;              // the process that wrote the file
};

/// Returns "OUT/.rendezvous-slurm-7.0.0"; an id that is long or has other characters is replaced by
/// a digest.
fs::path rendezvous_path(const fs::path& out, const std::string& run_id);

/// Returns the data as one line of JSON.
std::string rendezvous_text(const RendezvousInfo& rendezvous);
/// Parses the text from torchrun's store or a file. Throws Error(config) that names `where` but not
/// the token.
RendezvousInfo parse_rendezvous(const std::string& text, const std::string& where);

/// Writes the file atomically, and replaces one whose holder is not known to be alive. Throws
/// Error(resource) that names the holder when another coordinator is alive, or when the folder is
/// not writable.
void write_rendezvous(const fs::path& path, const RendezvousInfo& rendezvous);

/// Reads the file; nullopt if it does not exist or its coordinator has certainly exited. Throws
/// Error(config) when other users could have read or written it.
std::optional<RendezvousInfo> read_rendezvous(const fs::path& path);

/// Removes the file, unless another coordinator has replaced it.
void remove_rendezvous(const fs::path& path);

}  // namespace trainctl::study
