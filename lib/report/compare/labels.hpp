#pragma once

#include <string>
#include <vector>

namespace trainctl::report {

/// Returns a label for each word of the command line, unique: the runs of the word, of which it may
/// name several with commas between, without the folders that all runs have in common. "runs/a/1"
/// and "runs/b/1" become "a/1" and "b/1".
std::vector<std::string> short_labels(const std::vector<std::string>& words);

}  // namespace trainctl::report
