#include "data/dataset/synthetic_photographs.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "data/core/parallel.hpp"
#include "data/core/registry.hpp"
#include "data/core/run_control.hpp"
#include "data/formats/cache_file.hpp"
#include "data/formats/folder_scan.hpp"
#include "data/image/codec/jpeg.hpp"
#include "data/remote/cached_object.hpp"
#include "spec/options/dataset.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <system_error>

namespace trainctl::data {
namespace {

using spec::dataset::SyntheticPhotographs;

constexpr int kQuality = 90;
constexpr std::int64_t kMaxThreads = 16;

/// Returns the folder of the files. Its name contains the version of the drawing code, because
/// another version draws other images.
fs::path folder_of(const SyntheticPhotographs& options) {
  const fs::path cache = cache_root();
  ENSURE(config, options.folder || !cache.empty(),
         "synthetic_photographs needs a cache folder, but neither HOME nor XDG_CACHE_HOME is "
         "set\nhint: set one of them, or 'folder' of the data set");
  const fs::path parent =
      options.folder ? fs::absolute(*options.folder).lexically_normal() : cache / "photographs";
  return parent / fmt::format("v1-{}-{}", options.split == spec::Split::train ? "train" : "test",
                              options.samples);
}

/// Returns the files below `folder`, or nothing when some are missing or empty, as after a power
/// failure.
std::optional<ImageFiles> complete_files(const fs::path& folder,
                                         const SyntheticPhotographs& options) {
  if (!is_folder(folder)) return std::nullopt;
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
  ENSURE(resource, fd.valid(), "cannot write {}: {}", shown(path), std::strerror(errno));
  write_all(fd.get(), {reinterpret_cast<const char*>(file.data()), file.size()}, path.string());
}

/// Writes all files into an existing folder, with one thread per core.
void write_photographs(const fs::path& folder, const SyntheticPhotographs& options) {
  for (const std::string& name : photograph_classes()) make_folder(folder / name);
  std::atomic<std::int64_t> next = 0;
  run_in_threads(std::min<std::int64_t>(usable_cores(), kMaxThreads), [&] {
    for (std::int64_t i = next++; i < options.samples; i = next++) {
      write_photograph(folder,
                       {static_cast<std::uint32_t>(options.split), static_cast<std::uint64_t>(i)});
      note_progress();
    }
  });
}

/// Draws the files unless another process has done so meanwhile. The complete folder appears
/// atomically under its final name.
ImageFiles make_files(const fs::path& folder, const SyntheticPhotographs& options) {
  make_folder(folder.parent_path());
  const fs::path lock_path = folder.string() + ".lock";
  const Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ENSURE(resource, lock.valid() && lock_file(lock.get(), LOCK_EX), "cannot lock {}: {}",
         shown(lock_path), std::strerror(errno));
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
  ENSURE(resource, !failure, "cannot rename {} to {}: {}", shown(unfinished), shown(folder),
         failure.message());
  auto files = complete_files(folder, options);
  ENSURE(resource, files,
         "cannot store the photographs in {}: some files are missing after writing", shown(folder));
  return *std::move(files);
}

std::shared_ptr<const Dataset> load(const SyntheticPhotographs& options) {
  const fs::path folder = folder_of(options);
  std::optional<ImageFiles> files = complete_files(folder, options);
  if (!files) files = make_files(folder, options);
  return image_file_dataset(DataRoot(folder), *std::move(files), [] {});
}

constexpr int kHeight = static_cast<int>(kPhotographShape.height);
constexpr int kWidth = static_cast<int>(kPhotographShape.width);

using Color = std::array<int, 3>;

struct Palette {
  const char* name;
  Color sky;
  Color ground;
  Color objects;
};

constexpr std::array<Palette, 8> kPalettes{{
    {"beach", {130, 190, 235}, {225, 200, 150}, {235, 235, 225}},
    {"desert", {160, 195, 225}, {200, 140, 80}, {140, 90, 55}},
    {"forest", {175, 200, 190}, {60, 95, 45}, {45, 60, 35}},
    {"meadow", {120, 175, 230}, {110, 160, 60}, {215, 190, 70}},
    {"mountain", {150, 180, 215}, {110, 110, 105}, {85, 85, 95}},
    {"ocean", {170, 200, 220}, {35, 85, 120}, {200, 215, 220}},
    {"snow", {190, 205, 225}, {235, 238, 242}, {90, 100, 110}},
    {"sunset", {235, 140, 80}, {80, 50, 60}, {50, 35, 45}},
}};

/// The SplitMix64 generator (Steele et al. 2014).
class RandomBits {
 public:
  explicit RandomBits(const PhotographKey& key)
      : state_((std::uint64_t{key.split} << 48) ^ (key.index * 0xD1B54A32D192ED03ULL)) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL;
    return bits ^ (bits >> 31);
  }
  /// Returns a value from `low` to `high`.
  int between(int low, int high) {
    return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_;
};

/// One value per pixel, or per node of a coarser grid.
struct Plane {
  int height = 0;
  int width = 0;
  std::vector<int> values;

  Plane(int rows, int columns)
      : height(rows), width(columns), values(static_cast<std::size_t>(rows * columns)) {}
  int& at(int y, int x) { return values[static_cast<std::size_t>(y * width + x)]; }
  [[nodiscard]] int at(int y, int x) const {
    return values[static_cast<std::size_t>(y * width + x)];
  }
};

/// Returns the plane at twice the resolution, with averages between the old nodes.
Plane doubled(const Plane& coarse, int height, int width) {
  Plane fine(height, width);
  for (int y = 0; y < height; ++y) {
    const int above = std::min(y / 2, coarse.height - 1);
    const int below = std::min((y + 1) / 2, coarse.height - 1);
    for (int x = 0; x < width; ++x) {
      const int left = std::min(x / 2, coarse.width - 1);
      const int right = std::min((x + 1) / 2, coarse.width - 1);
      fine.at(y, x) = (coarse.at(above, left) + coarse.at(above, right) + coarse.at(below, left) +
                       coarse.at(below, right)) /
                      4;
    }
  }
  return fine;
}

/// Returns noise whose amplitude is proportional to its wavelength, as in photographs of nature.
/// The mean is 0; `amplitude` applies to the finest detail.
Plane fractal_noise(RandomBits& random, int amplitude) {
  constexpr int kLevels = 6;
  Plane plane((kHeight >> kLevels) + 1, (kWidth >> kLevels) + 1);
  for (int level = kLevels; level >= 0; --level) {
    if (level < kLevels) plane = doubled(plane, (kHeight >> level) + 1, (kWidth >> level) + 1);
    const int strength = amplitude << std::min(level, 4);
    for (int& value : plane.values) value += random.between(-strength, strength);
  }
  return plane;
}

/// An ellipse that is lit from the upper left.
struct Ellipse {
  int y = 0;
  int x = 0;
  int half_height = 1;
  int half_width = 1;
  Color color{};
};

void paint(const Ellipse& ellipse, std::array<Plane, 3>& scene) {
  constexpr std::int64_t kOne = 1024;
  const int bottom = std::min(kHeight - 1, ellipse.y + ellipse.half_height);
  const int right = std::min(kWidth - 1, ellipse.x + ellipse.half_width);
  for (int y = std::max(0, ellipse.y - ellipse.half_height); y <= bottom; ++y) {
    for (int x = std::max(0, ellipse.x - ellipse.half_width); x <= right; ++x) {
      const std::int64_t dy = kOne * (y - ellipse.y) / ellipse.half_height;
      const std::int64_t dx = kOne * (x - ellipse.x) / ellipse.half_width;
      if (dy * dy + dx * dx > kOne * kOne) continue;
      const int light = static_cast<int>(-(dy + dx) * 60 / kOne);
      for (std::size_t c = 0; c < 3; ++c) scene[c].at(y, x) = ellipse.color[c] + light;
    }
  }
}

std::array<Plane, 3> draw_scene(const Palette& palette, const Plane& texture, RandomBits& random) {
  const Plane empty(kHeight, kWidth);
  std::array<Plane, 3> scene{empty, empty, empty};
  const int horizon = random.between(kHeight / 4, kHeight * 2 / 3);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const bool is_sky = y < horizon + texture.at(kHeight / 2, x) / 2;
      const Color& base = is_sky ? palette.sky : palette.ground;
      const int gradient = is_sky ? (horizon - y) / 8 : (y - horizon) / 6;
      for (std::size_t c = 0; c < 3; ++c) scene[c].at(y, x) = base[c] - gradient;
    }
  }
  const int count = random.between(8, 24);
  for (int i = 0; i < count; ++i) {
    Ellipse ellipse{.y = random.between(horizon, kHeight - 1), .x = random.between(0, kWidth - 1)};
    ellipse.half_height = random.between(6, 70);
    ellipse.half_width = random.between(6, 70);
    for (std::size_t c = 0; c < 3; ++c)
      ellipse.color[c] = palette.objects[c] + random.between(-35, 35);
    paint(ellipse, scene);
  }
  return scene;
}

}  // namespace

void register_dataset_synthetic_photographs(Catalog& catalog) {
  catalog.datasets["synthetic_photographs"] = [](const config::Stage& stage) {
    return load(stage.as<SyntheticPhotographs>());
  };
  catalog.facts["synthetic_photographs"] = [](const config::Stage& stage) {
    const auto classes = static_cast<std::int64_t>(photograph_classes().size());
    return Facts{stage.as<SyntheticPhotographs>().samples, classes, ImageFiles{}.facts().layout,
                 photograph_classes()};
  };
}

const std::vector<std::string>& photograph_classes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Palette& palette : kPalettes) all.emplace_back(palette.name);
    return all;
  }();
  return names;
}

std::size_t photograph_class(const PhotographKey& key) { return key.index % kPalettes.size(); }

std::vector<std::uint8_t> draw_photograph(const PhotographKey& key) {
  RandomBits random(key);
  const Plane texture = fractal_noise(random, 3);
  const Plane tint = fractal_noise(random, 1);
  const int exposure = random.between(-25, 25);
  const std::array<Plane, 3> scene =
      draw_scene(kPalettes.at(photograph_class(key)), texture, random);
  std::vector<std::uint8_t> pixels;
  pixels.reserve(kPhotographShape.bytes());
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const std::uint64_t grain = random.next();
      for (std::size_t c = 0; c < 3; ++c) {
        const int noise = static_cast<int>((grain >> (8 * c)) & 7U) - 4;
        const int colored = c == 0 ? tint.at(y, x) : c == 2 ? -tint.at(y, x) : 0;
        const int value = scene[c].at(y, x) + texture.at(y, x) / 2 + colored / 2 + exposure + noise;
        pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0, 255)));
      }
    }
  }
  return pixels;
}

}  // namespace trainctl::data
