#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainctl::weights {

/// A tensor as a file or a model has it; dtypes in the words of safetensors.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

/// How the names in a file become those of the model.
struct Renaming {
  std::string prefix = {};  // of the names in the file that are meant; removed
  std::map<std::string, std::string> key_map = {};  // in the file -> in the model; "a." -> "b." too
  const char* prefix_option = "weights.prefix";     // for messages
  const char* key_map_option = "weights.key_map";

  [[nodiscard]] bool is_empty() const { return prefix.empty() && key_map.empty(); }
};

/// The names of a file as the model calls them; empty: not meant. Leading 'module.' and
/// '_orig_mod.' of all names are removed, as data parallelism and torch.compile add them; `notes`
/// says so. Throws Error(config) for a prefix or a key that fits no name, and for two names that
/// become one.
std::vector<std::string> renamed(const std::vector<std::string>& names, const Renaming& renaming,
                                 std::vector<std::string>& notes);

struct MatchOptions {
  bool strict = true;  // each has what the other has
  bool whole = false;  // nothing may differ, and no option of `weights` is there to change that
  Renaming renaming = {};
  std::string last_layer;    // the model's, whose first dimension is the number of outputs
  std::int64_t outputs = 0;  // that it has
};

struct Match {
  struct Pair {
    std::size_t file = 0;
    std::size_t model = 0;
  };
  std::vector<Pair> pairs;           // what is copied
  std::vector<std::string> redrawn;  // of the last layer: the file has another number of outputs
  std::vector<std::string> missing;  // in the model only
  std::vector<std::string> ignored;  // in the file only, as the file calls it
  std::vector<std::string> notes;
};

/// Which tensor of the file goes where, once its names are renamed(). Only the last layer may have
/// another shape, and only in its number of outputs. Throws one Error(checkpoint) that lists all
/// that does not fit.
Match match(const std::vector<Entry>& file, const std::vector<Entry>& model,
            const MatchOptions& options);

/// "fc3" of the parameters fc1.weight, ..., fc3.weight, fc3.bias: the layer of the last one.
std::string last_layer_of(const std::vector<std::string>& parameters);

/// Whether a pattern names the parameter. `*`, `?` and `[...]` as in a shell, a `*` crosses dots; a
/// pattern that names a layer ("conv1", "layer?") names all below it.
bool names(const std::string& pattern, const std::string& parameter);

/// Which of the parameters the patterns name, in their order. Throws Error(config) for a pattern
/// that names none.
std::vector<std::size_t> frozen_by(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& parameters);

}  // namespace trainctl::weights
