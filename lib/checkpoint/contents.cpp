#include "checkpoint/contents.hpp"

#include "checkpoint/verify.hpp"

#include <utility>

namespace trainctl::checkpoint {
namespace {

Tensor tensor_of(const std::string& part, const container::Entry& entry) {
  const std::string group(group_of(entry.name));
  std::string name = group.empty() ? entry.name : entry.name.substr(group.size() + 1);
  return {part, group, std::move(name), entry.dtype, entry.shape, entry.bytes.size()};
}

}  // namespace

std::string_view group_of(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

Contents contents_of(const fs::path& checkpoint) {
  Contents contents;
  contents.manifest = read_manifest(checkpoint);
  for (const Manifest::Part& part : contents.manifest.parts) {
    const container::File file = read_part(checkpoint, part);
    for (const container::Entry& entry : file.entries())
      contents.tensors.push_back(tensor_of(part.file, entry));
    const bool is_first = &part == &contents.manifest.parts.front();
    if (is_first && file.meta().is_object() && file.meta().contains("training"))
      contents.training = file.meta().at("training");
  }
  return contents;
}

}  // namespace trainctl::checkpoint
