#include "spec/dataset/synthetic_photographs.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "data/core/progress.hpp"
#include "data/core/registry.hpp"
#include "data/dataset/photograph.hpp"
#include "data/formats/cache_file.hpp"
#include "data/formats/folder_scan.hpp"
#include "data/image/codec/jpeg_write.hpp"
#include "data/remote/tier_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace trainctl::data {
namespace {

using spec::dataset::SyntheticPhotographs;

constexpr int kQuality = 90;
constexpr std::int64_t kMostThreads = 16;

/// Where the files lie. The name has the version of the drawing: another version draws others.
fs::path folder_of(const SyntheticPhotographs& options) {
  fs::path parent;
  if (options.folder) {
    parent = fs::absolute(*options.folder).lexically_normal();
  } else {
    const fs::path cache = cache_root();
    ENSURE(config, !cache.empty(),
           "synthetic_photographs keeps its files in a cache folder, and neither HOME nor "
           "XDG_CACHE_HOME is set; set one, or 'folder' of the data set");
    parent = cache / "photographs";
  }
  return parent / fmt::format("v1-{}-{}", options.split == spec::Split::train ? "train" : "test",
                              options.samples);
}

Facts facts_of(const SyntheticPhotographs& options) {
  const auto classes = static_cast<std::int64_t>(photograph_classes().size());
  return {options.samples,
          classes,
          {image_field({0, 0, 3}), Field{"label", Dtype::i64, {}}},
          photograph_classes()};
}

/// The files below `folder`; nothing where some are missing or empty, as after a power cut.
std::optional<ImageFiles> complete_files(const fs::path& folder,
                                         const SyntheticPhotographs& options) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return std::nullopt;
  ImageFiles files =
      scan_class_folders(folder, {.empty = EmptyClasses::allow, .stamps = Stamps::take}).files;
  const bool complete =
      files.samples() == options.samples && files.labels.class_names == photograph_classes() &&
      std::ranges::none_of(files.stamps, [](const FileStamp& stamp) { return stamp.size == 0; });
  return complete ? std::optional(std::move(files)) : std::nullopt;
}

void write_photograph(const fs::path& folder, const PhotographKey& key) {
  const std::vector<std::uint8_t> pixels = draw_photograph(key);
  const std::vector<std::byte> file =
      write_jpeg(ImageView(pixels.data(), kPhotographShape), kQuality);
  const fs::path path =
      folder / photograph_classes()[photograph_class(key)] / fmt::format("{:06}.jpg", key.index);
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  ENSURE(resource, fd.valid(), "cannot write {}: {}", printable(path.string()),
         std::strerror(errno));
  write_all(fd.get(), {reinterpret_cast<const char*>(file.data()), file.size()}, path.string());
}

/// Writes all files into an existing folder, with as many threads as there are cores.
void write_photographs(const fs::path& folder, const SyntheticPhotographs& options) {
  for (const std::string& name : photograph_classes()) make_folder(folder / name);
  std::atomic<std::int64_t> next = 0;
  const auto write_some = [&] {
    for (std::int64_t i = next++; i < options.samples; i = next++) {
      write_photograph(folder,
                       {static_cast<std::uint32_t>(options.split), static_cast<std::uint64_t>(i)});
      note_progress();
    }
  };
  std::vector<std::future<void>> helpers;
  try {
    for (std::int64_t i = 1; i < std::min<std::int64_t>(usable_cores(), kMostThreads); ++i)
      helpers.push_back(std::async(std::launch::async, write_some));
  } catch (const std::system_error&) {  // this thread writes them all
  }
  write_some();
  for (std::future<void>& helper : helpers) helper.get();
}

/// Draws the files unless another process did so meanwhile. They appear under their name at once
/// and complete.
ImageFiles make_files(const fs::path& folder, const SyntheticPhotographs& options) {
  make_folder(folder.parent_path());
  const fs::path lock_path = folder.string() + ".lock";
  const Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ENSURE(resource, lock.valid() && lock_file(lock.get(), LOCK_EX), "cannot lock {}: {}",
         printable(lock_path.string()), std::strerror(errno));
  if (auto files = complete_files(folder, options)) return *std::move(files);
  const fs::path unfinished = folder.string() + ".unfinished";
  std::error_code failure;
  fs::remove_all(unfinished, failure);
  try {
    write_photographs(unfinished, options);
  } catch (...) {
    fs::remove_all(unfinished, failure);
    throw;
  }
  fs::remove_all(folder, failure);
  fs::rename(unfinished, folder, failure);
  ENSURE(resource, !failure, "cannot rename {} to {}: {}", printable(unfinished.string()),
         printable(folder.string()), failure.message());
  auto files = complete_files(folder, options);
  ENSURE(resource, files.has_value(), "cannot keep the photographs in {}: files are missing",
         printable(folder.string()));
  return *std::move(files);
}

std::shared_ptr<const Dataset> load(const SyntheticPhotographs& options) {
  const fs::path folder = folder_of(options);
  std::optional<ImageFiles> files = complete_files(folder, options);
  if (!files) files = make_files(folder, options);
  return image_file_dataset(DataRoot(folder), *std::move(files), [] {});
}

}  // namespace

void register_dataset_synthetic_photographs(Catalogue& catalogue) {
  catalogue.datasets["synthetic_photographs"] = [](const config::Stage& stage) {
    return load(stage.as<SyntheticPhotographs>());
  };
  catalogue.facts["synthetic_photographs"] = [](const config::Stage& stage) {
    return facts_of(stage.as<SyntheticPhotographs>());
  };
}

}  // namespace trainctl::data
