#include "checkpoint/contents.hpp"

#include "base/strings.hpp"
#include "checkpoint/verify.hpp"

#include <utility>

namespace trainctl::checkpoint {
namespace {

Tensor tensor_of(const std::string& part, const container::Entry& entry) {
  const std::string group(group_of(entry.name));
  std::string name = group.empty() ? entry.name : entry.name.substr(group.size() + 1);
  return {part, group, std::move(name), entry.dtype, entry.shape, entry.bytes.size()};
}

void add_tensors(const std::string& part, const container::File& file, Contents& contents) {
  for (const container::Entry& entry : file.entries())
    contents.tensors.push_back(tensor_of(part, entry));
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
  for (const Manifest::Part& part : manifest.parts) {
    const container::File file = read_part(checkpoint, part);
    add_tensors(part.file, file, contents);
    if (&part == &manifest.parts.front()) contents.training = training_of(file.meta());
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
  add_tensors(file.filename().string(), read, contents);
  contents.training = training_of(meta);
  contents.meta = meta;
  if (meta.is_object()) contents.meta.erase("training");
  return contents;
}

}  // namespace trainctl::checkpoint
