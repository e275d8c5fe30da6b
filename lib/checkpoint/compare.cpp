#include "checkpoint/compare.hpp"

#include "base/strings.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/parts.hpp"
#include "checkpoint/verify.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::checkpoint {
namespace {

using Difference = std::optional<std::string>;

Difference between(const container::Entry& expected, const container::Entry& found) {
  if (expected.dtype != found.dtype || expected.shape != found.shape)
    return "is of another type or shape";
  const auto at = std::ranges::mismatch(expected.bytes, found.bytes);
  if (at.in1 == expected.bytes.end() && at.in2 == found.bytes.end()) return std::nullopt;
  return fmt::format("differs from byte {} of {} on", at.in1 - expected.bytes.begin(),
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
      return printable(entry.name) + " is there, and was not";
  }
  return std::nullopt;
}

Json memo_of(const PartReader& file, const std::string& key) {
  const Json& meta = file.meta();
  if (!meta.is_object() || !meta.contains("training")) return nullptr;
  const Json& training = meta.at("training");
  return training.is_object() && training.contains(key) ? training.at(key) : Json();
}

Difference of_memos(const PartReader& expected, const PartReader& found,
                    const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const Json wanted = memo_of(expected, key);
    const Json got = memo_of(found, key);
    if (wanted != got)
      return fmt::format("{} is {} and was {}", key, printable(to_line(got)),
                         printable(to_line(wanted)));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> first_difference(const fs::path& expected, const fs::path& found,
                                            const Section& section) {
  const Manifest wanted = read_manifest(expected);
  const Manifest got = read_manifest(found);
  if (wanted.global_step != got.global_step)
    return fmt::format("it is of step {} and not of step {}", got.global_step, wanted.global_step);
  if (wanted.parts.size() != got.parts.size())
    return fmt::format("it is of {} ranks and not of {}", got.parts.size(), wanted.parts.size());
  for (std::size_t rank = 0; rank < wanted.parts.size(); ++rank) {
    const PartReader a(expected, wanted, static_cast<int>(rank));
    const PartReader b(found, got, static_cast<int>(rank));
    Difference difference = of_tensors(a, b, section.groups);
    if (!difference) difference = of_memos(a, b, section.memos);
    if (difference) return wanted.parts[rank].file + ": " + *difference;
  }
  return std::nullopt;
}

}  // namespace trainctl::checkpoint
