#include "checkpoint/contents.hpp"

#include "base/strings.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/parts.hpp"
#include "checkpoint/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace trainctl::checkpoint {
namespace {

Tensor tensor_of(const std::string& part, const container::Entry& entry) {
  const std::string group(group_of(entry.name));
  std::string name = group.empty() ? entry.name : entry.name.substr(group.size() + 1);
  return {part, group, std::move(name), entry.dtype, entry.shape, entry.bytes.size()};
}

/// Returns the file that stores the tensor. The reverse loop resolves chains, because a group
/// follows the group in its `same_as`.
const std::string& file_of(std::string_view tensor, const std::string& part,
                           const Manifest& manifest) {
  for (const Manifest::SharedGroup& shared : std::views::reverse(manifest.shared)) {
    if (!tensor.starts_with(shared.group)) continue;
    if (shared.same_as.empty()) return shared.file;
    tensor = shared.same_as;
  }
  return part;
}

/// Returns null when the document is not an object or lacks the key.
Json value_at(const Json& document, const std::string& key) {
  return document.is_object() && document.contains(key) ? document.at(key) : Json();
}

using Difference = std::optional<std::string>;

Difference between(const container::Entry& expected, const container::Entry& found) {
  if (expected.dtype != found.dtype || expected.shape != found.shape)
    return "has another dtype or shape";
  const auto at = std::ranges::mismatch(expected.bytes, found.bytes);
  if (at.in1 == expected.bytes.end() && at.in2 == found.bytes.end()) return std::nullopt;
  return fmt::format("differs, first at byte {} of {}", at.in1 - expected.bytes.begin(),
                     expected.bytes.size());
}

bool is_in(const container::Entry& entry, const std::vector<std::string>& groups) {
  return std::ranges::find(groups, group_of(entry.name)) != groups.end();
}

Difference of_tensors(const PartReader& expected, const PartReader& found,
                      const std::vector<std::string>& groups) {
  for (const container::Entry& entry : expected.entries()) {
    if (!is_in(entry, groups)) continue;
    const container::Entry* other = found.find(entry.name);
    const Difference difference =
        other == nullptr ? Difference("is missing") : between(entry, *other);
    if (difference) return printable(entry.name) + " " + *difference;
  }
  for (const container::Entry& entry : found.entries()) {
    if (is_in(entry, groups) && expected.find(entry.name) == nullptr)
      return printable(entry.name) + " is not in the expected checkpoint";
  }
  return std::nullopt;
}

Difference difference_of_values(const PartReader& expected, const PartReader& found,
                                const std::vector<std::string>& keys) {
  const Json expected_values = value_at(expected.meta(), "training");
  const Json found_values = value_at(found.meta(), "training");
  for (const std::string& key : keys) {
    const Json wanted = value_at(expected_values, key);
    const Json got = value_at(found_values, key);
    if (wanted != got)
      return fmt::format("{} is {}, expected {}", key, printable(to_line(got)),
                         printable(to_line(wanted)));
  }
  return std::nullopt;
}

}  // namespace

std::string_view group_of(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

Contents contents_of(const fs::path& checkpoint) {
  Contents contents;
  const Manifest& manifest = contents.manifest.emplace(read_manifest(checkpoint));
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    const std::string& part = manifest.parts[static_cast<std::size_t>(rank)].file;
    const PartReader file(checkpoint, manifest, rank);
    for (const container::Entry& entry : file.entries())
      contents.tensors.push_back(tensor_of(file_of(entry.name, part, manifest), entry));
    if (rank == 0) contents.training = value_at(file.meta(), "training");
  }
  return contents;
}

Contents contents_of_file(const fs::path& file) {
  Contents contents;
  const container::File read(file);
  const Json& meta = read.meta();
  if (read.entries().empty() && meta.is_object() && meta.contains("parts")) {
    contents.manifest = from_json(meta, printable(file.string()));
    return contents;
  }
  for (const container::Entry& entry : read.entries())
    contents.tensors.push_back(tensor_of(file.filename().string(), entry));
  contents.training = value_at(meta, "training");
  contents.meta = meta;
  if (meta.is_object()) contents.meta.erase("training");
  return contents;
}

std::optional<std::string> first_difference(const fs::path& expected, const fs::path& found,
                                            const Section& section) {
  const Manifest wanted = read_manifest(expected);
  const Manifest got = read_manifest(found);
  if (wanted.global_step != got.global_step)
    return fmt::format("the checkpoint was saved at step {}, expected step {}",
                       with_thousands(got.global_step), with_thousands(wanted.global_step));
  if (wanted.parts.size() != got.parts.size())
    return fmt::format("it has the state of {} ranks, expected {}", got.parts.size(),
                       wanted.parts.size());
  for (std::size_t rank = 0; rank < wanted.parts.size(); ++rank) {
    const PartReader a(expected, wanted, static_cast<int>(rank));
    const PartReader b(found, got, static_cast<int>(rank));
    Difference difference = of_tensors(a, b, section.groups);
    if (!difference) difference = difference_of_values(a, b, section.values);
    if (difference) return wanted.parts[rank].file + ": " + *difference;
  }
  return std::nullopt;
}

}  // namespace trainctl::checkpoint
