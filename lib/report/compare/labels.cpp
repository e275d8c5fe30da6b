#include "report/compare/labels.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

namespace trainctl::report {
namespace {

namespace fs = std::filesystem;

using Parts = std::vector<std::string>;

/// The parts of the path of each run, without a last '/'.
std::vector<Parts> runs_of(const std::string& word) {
  std::vector<Parts> runs;
  for (const std::string& run : split(word, ',')) {
    Parts parts;
    for (const fs::path& part : fs::path(run)) {
      if (!part.empty()) parts.push_back(part.string());
    }
    if (!parts.empty()) runs.push_back(std::move(parts));
  }
  return runs;
}

/// How many folders all runs have in common; the last part of each is kept.
std::size_t common_parts(const std::vector<Parts>& runs) {
  std::size_t common = 0;
  for (bool same = !runs.empty(); same; common += same ? 1 : 0) {
    same = std::ranges::all_of(runs, [&](const Parts& one) {
      return one.size() > common + 1 && one[common] == runs.front()[common];
    });
  }
  return common;
}

std::string label_of(const std::vector<Parts>& runs, std::size_t common) {
  std::vector<std::string> names;
  for (const Parts& parts : runs) names.push_back(join(std::span(parts).subspan(common), "/"));
  return join(names, ",");
}

}  // namespace

std::vector<std::string> short_labels(const std::vector<std::string>& words) {
  std::vector<std::vector<Parts>> groups;
  std::vector<Parts> all;
  for (const std::string& word : words) {
    groups.push_back(runs_of(word));
    all.insert(all.end(), groups.back().begin(), groups.back().end());
  }
  const std::size_t common = common_parts(all);
  std::vector<std::string> labels;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = groups[i].empty() ? words[i] : label_of(groups[i], common);
    std::string label = name;
    // The same run twice is still two.
    for (int number = 2; !seen.insert(label).second; ++number)
      label = name + fmt::format(" ({})", number);
    labels.push_back(std::move(label));
  }
  return labels;
}

}  // namespace trainctl::report
