#include "checkpoint/contents.hpp"

#include "base/strings.hpp"
#include "checkpoint/parts.hpp"
#include "checkpoint/verify.hpp"

#include <ranges>
#include <utility>

namespace trainctl::checkpoint {
namespace {

Tensor tensor_of(const std::string& part, const container::Entry& entry) {
  const std::string group(group_of(entry.name));
  std::string name = group.empty() ? entry.name : entry.name.substr(group.size() + 1);
  return {part, group, std::move(name), entry.dtype, entry.shape, entry.bytes.size()};
}

/// The file that stores the tensor. A group comes after the one whose bytes it has.
const std::string& file_of(std::string_view tensor, const std::string& part,
                           const Manifest& manifest) {
  for (const Manifest::SharedGroup& shared : std::views::reverse(manifest.shared)) {
    if (!tensor.starts_with(shared.group)) continue;
    if (shared.same_as.empty()) return shared.file;
    tensor = shared.same_as;
  }
  return part;
}

Json training_of(const Json& meta) {
  return meta.is_object() && meta.contains("training") ? meta.at("training") : Json();
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
    if (rank == 0) contents.training = training_of(file.meta());
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
  contents.training = training_of(meta);
  contents.meta = meta;
  if (meta.is_object()) contents.meta.erase("training");
  return contents;
}

}  // namespace trainctl::checkpoint
