#pragma once

#include "base/files.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "study/folder/folder_lock.hpp"

#include <optional>
#include <string>

// How the head of a run tells the other nodes where it listens, by a folder that all of them see.

namespace trainctl::study {

/// One line of JSON in a file that only its owner may read.
struct Meeting {
  std::string run_id;
  launch::Endpoint endpoint;
  std::optional<launch::Token> token;  // absent: the others were given it
  LockHolder head;                     // whose the file is
};

/// "OUT/.rendezvous-slurm-7.0.0": an id with other characters, or a long one, gets a digest.
fs::path meeting_path(const fs::path& out, const std::string& run_id);

std::string meeting_text(const Meeting& meeting);
/// The text that torchrun's store or a file holds. Throws Error(config) naming `where`, and not the
/// token.
Meeting parse_meeting(const std::string& text, const std::string& where);

/// Appears with its content, in the place of one that no living process is known to hold. Throws
/// Error(resource) naming the holder where another head lives, or where the folder is not writable.
void write_meeting(const fs::path& path, const Meeting& meeting);

/// Nothing where there is none, or one of a head that is gone for certain. Throws Error(config)
/// where others could read or have written it.
std::optional<Meeting> read_meeting(const fs::path& path);

/// Unless another head has taken its place.
void remove_meeting(const fs::path& path);

}  // namespace trainctl::study
