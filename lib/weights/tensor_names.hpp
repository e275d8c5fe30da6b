#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainctl::weights {

/// A tensor of a file or model; dtypes in safetensors notation.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

/// Maps the names in a file to those of the model.
struct Renaming {
  std::string prefix = {};  // prefix of the selected names in the file; it is removed
  /// File name to model name; "a." to "b." renames prefixes.
  std::map<std::string, std::string> key_map = {};
  const char* prefix_option = "weights.prefix";  // for messages
  const char* key_map_option = "weights.key_map";

  [[nodiscard]] bool is_empty() const { return prefix.empty() && key_map.empty(); }
};

/// Returns the model's name of each tensor in the file; empty: not selected. A prefix 'module.' or
/// '_orig_mod.', as data parallelism and torch.compile add, is removed and noted if all names have
/// it. Throws Error(config) for a prefix or key that matches no name, and when two names become the
/// same.
std::vector<std::string> renamed(const std::vector<std::string>& names, const Renaming& renaming,
                                 std::vector<std::string>& notes);

/// How strictly the tensors of a file must match the model.
struct MatchOptions {
  bool strict = true;  // requires the same tensors in file and model
  bool whole = false;  // requires exact equality; set when no option of `weights` applies
  Renaming renaming = {};
  std::string last_layer;    // of the model; its first dimension is the number of outputs
  std::int64_t outputs = 0;  // of the model
};

/// The result of match(): indices into the file's and the model's tensors.
struct Match {
  struct Pair {
    std::size_t file = 0;
    std::size_t model = 0;
  };
  std::vector<Pair> pairs;                 // tensors to copy
  std::vector<std::string> reinitialized;  // of the last layer, if the file has other outputs
  std::vector<std::string> missing;        // only in the model
  std::vector<std::string> ignored;        // only in the file, with the file's names
  std::vector<std::string> notes;
};

/// Matches tensors of the file and the model, after renamed(). Only the last layer may differ in
/// shape, and only in the number of outputs. Throws one Error(checkpoint) that lists all
/// mismatches.
Match match(const std::vector<Entry>& file, const std::vector<Entry>& model,
            const MatchOptions& options);

/// Returns the layer of the last parameter: "fc3" for fc1.weight, ..., fc3.weight, fc3.bias.
std::string last_layer_of(const std::vector<std::string>& parameters);

/// Returns whether a pattern matches the parameter. `*`, `?` and `[...]` work as in a shell, but
/// `*` also matches dots. A pattern that matches a layer ("conv1", "layer?") includes everything
/// below it.
bool names(const std::string& pattern, const std::string& parameter);

/// Returns the indices of parameters that match a pattern, in order. Throws Error(config) that
/// begins with `key` for a pattern without a match.
std::vector<std::size_t> frozen_by(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& parameters,
                                   const char* key = "freeze");

}  // namespace trainctl::weights
