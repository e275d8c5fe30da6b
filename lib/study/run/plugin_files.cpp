#include "study/run/plugin_files.hpp"

#include "base/error.hpp"
#include "base/file_mapping.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "spec/plugins.hpp"

namespace trainctl::study {
namespace {

Json file_with_digest(const fs::path& file) {
  return in_context(fmt::format("plug-in '{}'", printable(file.string())), [&]() -> Json {
    const FileMapping bytes(file, ErrorKind::config);
    return {{"path", file.string()}, {"digest", to_hex(hash_bytes(bytes.bytes()))}};
  });
}

}  // namespace

Json plugin_files(const std::vector<fs::path>& libraries) {
  Json files = Json::array();
  for (const fs::path& library : libraries) {
    Json one = file_with_digest(library);
    const char* engine = spec::load_plugin(library).entry->engine;
    one["engine"] =
        engine == nullptr ? Json(nullptr) : file_with_digest(library.parent_path() / engine);
    files.push_back(std::move(one));
  }
  return files;
}

}  // namespace trainctl::study
