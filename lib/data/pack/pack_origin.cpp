#include "data/pack/pack_origin.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "config/schema/dump.hpp"
#include "config/schema/reader.hpp"
#include "config/tree/yaml.hpp"
#include "data/formats/file_reader.hpp"
#include "spec/load.hpp"
#include "spec/plugins.hpp"

#include <sys/stat.h>

#include <algorithm>

namespace trainctl::data {
namespace {

constexpr std::size_t kMostMarks = 4096;  // each costs a stat() whenever the pack is opened

std::optional<PathStamp> mark_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  const FileStamp stamp = stamp_of(info);
  return PathStamp{path.string(), stamp.mtime_ns, S_ISDIR(info.st_mode) ? 0 : stamp.size};
}

void add_texts(const config::Node& node, std::vector<fs::path>& paths) {
  if (node.type == config::Node::Type::scalar && !node.text.empty()) paths.emplace_back(node.text);
  for (const config::Node& item : node.items) add_texts(item, paths);
}

std::vector<fs::path> paths_of(const config::Stage& stage) {
  using config::ValueType;
  std::vector<fs::path> paths;
  for (const config::Field& field : stage.schema->fields) {
    const bool list = field.type.type == ValueType::list && field.type.item;
    if ((list ? field.type.item->type : field.type.type) != ValueType::path) continue;
    add_texts(field.write(stage.options.get()), paths);
  }
  return paths;
}

/// The marks of the named paths and of everything below them.
struct Found {
  std::vector<PathStamp> named;  // named by the options
  std::vector<PathStamp> folders;
  std::vector<PathStamp> files;
  bool many_files = false;

  void look_beneath(const fs::path& folder) {
    std::error_code failure;
    fs::recursive_directory_iterator entry(folder, failure);
    for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
      std::error_code ignored;
      const bool is_folder = entry->is_directory(ignored);
      if (!is_folder && many_files) continue;
      if (const auto mark = mark_of(entry->path())) (is_folder ? folders : files).push_back(*mark);
      many_files = files.size() > kMostMarks;
    }
  }

  std::vector<PathStamp> marks() && {
    std::vector<PathStamp> all = std::move(named);
    all.insert(all.end(), folders.begin(), folders.end());
    if (all.size() + files.size() <= kMostMarks) all.insert(all.end(), files.begin(), files.end());
    if (all.size() > kMostMarks) all.resize(kMostMarks);
    return all;
  }
};

/// Returns the source's current fingerprint, or nothing when it cannot be opened.
std::optional<std::string> fingerprint_now(const std::string& stage, const Catalog& catalog) {
  config::Diagnostics problems;
  const config::Node tree =
      config::parse_yaml(config::make_source("the pack", stage), stage, problems);
  config::Reader reader(spec::vocabulary_in_use(), problems);
  config::Stage source;
  config::Field field;
  field.key = "source";
  if (problems.error_count() > 0 || !reader.stage(tree, field, "dataset", source) ||
      problems.error_count() > 0)
    return std::nullopt;
  try {
    return catalog.datasets.at(source.type)(source)->fingerprint();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data && error.kind() != ErrorKind::config) throw;
    return std::nullopt;
  }
}

std::uint64_t hash_of(const std::string& fingerprint) {
  return hash_bytes(std::as_bytes(std::span(fingerprint)));
}

}  // namespace

PackOrigin record_origin(const config::Stage& source) {
  PackOrigin origin{config::dump(config::write_stage(source)), {}};
  const std::vector<fs::path> paths = paths_of(source);
  if (std::ranges::any_of(paths, is_remote)) return origin;
  Found found;
  for (const fs::path& path : paths) {
    const bool pattern = !fs::exists(path);  // a pattern of shards
    const auto mark = mark_of(pattern ? path.parent_path() : path);
    if (!mark) continue;
    found.named.push_back(*mark);
    if (fs::is_directory(mark->path)) found.look_beneath(mark->path);
  }
  origin.marks = std::move(found).marks();
  return origin;
}

void check_pack_origin(const PackHeader& header, const PackOrigin& origin, const Catalog& catalog,
                       const std::string& file) {
  const PathStamp* changed = nullptr;
  std::size_t left = 0;
  for (const PathStamp& mark : origin.marks) {
    const auto now = mark_of(mark.path);
    if (now) ++left;
    if (now != mark) changed = &mark;  // prefers the last mark: files come after their folders
  }
  // If only the root folder is left, it may be the mount point of an unmounted disk.
  const bool gone = left == 0 || (left == 1 && origin.marks.size() > 1);
  if (changed == nullptr || gone) return;
  const auto fingerprint = fingerprint_now(origin.stage, catalog);
  ENSURE(data, fingerprint && hash_of(*fingerprint) == header.source,
         "{} is stale: '{}' has changed since the pack was made\nhint: make the pack again with "
         "'trainctl data pack' (the options were: {}), or set 'on_stale: ignore' to use the pack "
         "as it is",
         file, printable(changed->path), printable(header.recipe_text()));
}

void check_pack_source(const PackHeader& header, const std::string& fingerprint,
                       const std::string& file) {
  ENSURE(data, header.source == hash_of(fingerprint),
         "{} is stale: its samples differ from those that 'source' has now\nhint: make the pack "
         "again with 'trainctl data pack' (the options were: {}), or remove 'source'",
         file, printable(header.recipe_text()));
}

}  // namespace trainctl::data
