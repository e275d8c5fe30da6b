#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainctl::study {

/// CPU threads of a worker, and why so many.
struct Threads {
  int number = 0;  // 0: not known yet
  std::string why;
  bool contended = false;  // others took the cores while the number was chosen
};

/// What `loader.batch_size: auto` became, and why.
struct FoundBatch {
  std::int64_t size = 0;  // 0: it was not auto
  std::string why;
};

/// Loader threads of a worker, their batches ahead, and why so many.
struct Workers {
  int number = 0;
  int prefetch_factor = 0;  // 0: not known yet
  std::string why;
};

/// Whether images had the channels last in memory, and why.
struct Layout {
  bool channels_last = false;
  std::string why;  // empty: not known yet
};

/// What `trainer.activation_checkpointing: auto` became, and why.
struct Recomputes {
  bool blocks = false;
  std::string why;  // empty: it was not auto
};

struct GitState {
  std::string commit;  // empty: not in a repository
  std::string status;  // "clean", "modified"
};

/// What is needed to say later under what a run was made.
struct ManifestInput {
  std::vector<std::string> argv;
  fs::path config_file;
  std::string version;
  std::string started_at;
  std::map<std::string, std::string> library_versions;   // as the worker reported them
  std::map<std::string, std::string> data_fingerprints;  // split -> hex
  Threads threads;
  std::string thread_waiting;  // "spin" or "sleep", see launch::Waiting; empty: none has started
  Workers workers;
  FoundBatch batch_size;
  Recomputes recomputes;
  Layout layout;
  std::string allocator;         // that answers malloc in the worker; empty: not known yet
  Json split = nullptr;          // dataset.split and the file with its samples; null: none
  Json plugins = Json::array();  // their files, see plugin_files()
  Json weights = nullptr;        // what the training started from; null: what the seed draws
  Machine machine;
  GitState git;
};

/// manifest.json. Of the environment only an allow-list of names is kept, so no secret can slip in.
Json manifest(const ManifestInput& input);

/// State of the repository that holds `folder`; asks git where it is installed, within a second.
GitState git_state(const fs::path& folder);

}  // namespace trainctl::study
