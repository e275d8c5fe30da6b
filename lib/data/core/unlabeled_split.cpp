#include "data/core/unlabeled_split.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/formats/folder_scan.hpp"

#include <system_error>
#include <utility>

namespace trainctl::data {
namespace {

constexpr std::uint64_t kMostListBytes = std::uint64_t{1} << 30;

struct Pictures {
  fs::path folder;
  ImageFiles files;
};

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

/// Returns the path on a line of a list, or an empty string for an empty line.
std::string path_on(std::string line, const std::string& place) {
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) return line;
  ENSURE(data, !is_remote(line), "{}: the path must be a local path, got '{}'", place,
         printable(line));
  ENSURE(data, has_image_suffix(line),
         "{}: '{}' must end in .jpg, .jpeg, .png, .webp, .bmp, .tif or .tiff", place,
         printable(line));
  return line;
}

Pictures read_list(const fs::path& list) {
  Pictures found{folder_of(list), {}};
  const DataRoot root(found.folder, DataRoot::Links::follow);
  std::size_t number = 0;
  for (std::string& line : split(read_file(list, kMostListBytes, ReadFailure::data), '\n')) {
    const std::string place = fmt::format("{}:{}", printable(list.string()), ++number);
    const std::string path = path_on(std::move(line), place);
    if (path.empty()) continue;
    found.files.files.add(path);
    found.files.stamps.push_back(in_context(place, [&] { return root.open(path).stamp(); }));
  }
  return found;
}

Pictures one_picture(const fs::path& file) {
  Pictures found{folder_of(file), {}};
  const std::string name = file.filename().string();
  found.files.files.add(name);
  found.files.stamps.push_back(DataRoot(found.folder, DataRoot::Links::follow).open(name).stamp());
  return found;
}

Pictures listed(const fs::path& input) {
  std::error_code ignored;
  const fs::file_status found = fs::status(input, ignored);
  if (fs::is_directory(found)) return {input, scan_pictures(input)};
  ENSURE(
      config, fs::status_known(found) && fs::exists(found),
      "no such file or folder\nhint: name a local folder of images, list of images or image file");
  ENSURE(config, fs::is_regular_file(found),
         "the list must be a regular file, not a pipe or device\nhint: write the list to a file");
  return has_image_suffix(input.string()) ? one_picture(input) : read_list(input);
}

Pictures find_pictures(const fs::path& input) {
  Pictures found = listed(input);
  const std::size_t count = found.files.files.size();
  ENSURE(data, count > 0, "no images found (.jpg .jpeg .png .webp .bmp .tif .tiff)");
  found.files.labels.rows.resize(count * sizeof(std::int64_t));
  found.files.labels.classes = 1;
  return found;
}

}  // namespace

Unlabeled unlabeled_split(const fs::path& input, const std::vector<config::Stage>& transforms) {
  Unlabeled out{{}, catalog_in_use()};
  // Error messages use these names.
  out.split.dataset.kind = "--input";
  out.split.dataset.type = printable(input.string());
  out.split.transforms = transforms;
  out.catalog.facts[out.split.dataset.type] = [input](const config::Stage&) {
    return find_pictures(input).files.facts();
  };
  out.catalog.datasets[out.split.dataset.type] = [input](const config::Stage&) {
    Pictures found = find_pictures(input);
    return image_file_dataset(DataRoot(std::move(found.folder), DataRoot::Links::follow),
                              std::move(found.files), {});
  };
  return out;
}

}  // namespace trainctl::data
