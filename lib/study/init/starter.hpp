#pragma once

// Starter experiments of `trainctl init`: the user's data is inspected, and the facts found
// determine a commented experiment file.

#include "base/files.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::study {

/// The kinds of data for which there is a starter experiment.
inline constexpr std::array kStarterKinds{"mnist", "image-folder", "tabular", "text"};

struct StarterRequest {
  std::string kind;
  fs::path data = {};             // empty: data/mnist for mnist; required for the other kinds
  fs::path file = "config.yaml";  // the experiment file; its paths are relative to its folder
  std::string target = {};        // column of a table; empty: chosen by name or position
  bool force = false;             // the commands may replace existing files
};

struct Starter {
  /// What was found, such as {"classes", "7"}.
  std::vector<std::pair<std::string, std::string>> facts;
  std::string yaml;
  std::vector<std::string> commands = {};  // to run before the experiment can be read
};

/// Inspects the data. `trainctl validate` accepts the experiment after the commands have been run.
/// Throws Error(config) for a wrong request, Error(data) for unsuitable data.
Starter make_starter(StarterRequest request);

/// Returns the starter experiment for a folder of class folders, or of `train` and `val` with class
/// folders. Reads the names of all images and up to 2,048 headers per folder, and decodes no image.
Starter image_folder_starter(const StarterRequest& request);
/// Returns the starter experiment for a CSV or Parquet file, of which all rows are read.
Starter table_starter(const StarterRequest& request);

/// Returns the first 64 KiB of a file. Throws Error(data) if they contain a zero byte.
std::string start_of_text(const fs::path& path);
/// Throws Error(data) if an experiment file cannot contain a text; `what` says what it is.
void check_name(const std::string& text, const std::string& what);
/// Returns a text as YAML, in quotes if it needs them. Throws Error(data) as check_name() does.
std::string yaml_value(const std::string& text);
/// Returns a path as YAML, relative to the folder of the experiment file. Resolves no links.
std::string path_value(const fs::path& path, const fs::path& file);
/// Returns the first lines of the experiment: what the file is, its name and its seed.
std::string starter_head(const StarterRequest& request);

/// Numbers of samples in the smallest and the largest class; 0 without classes.
struct ClassSizes {
  std::int64_t least = 0;
  std::int64_t most = 0;
};
/// Returns the section `loader`. A batch has at most `most` samples and at most a tenth of all.
std::string starter_loader(std::int64_t samples, std::int64_t most, const ClassSizes& classes);

}  // namespace trainctl::study
