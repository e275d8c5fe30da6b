// Measures images per second on one thread, for the JPEGs below the given folders: decoding the
// whole image, decoding the box of a random resized crop (reading the whole file, or only the
// needed part), and resizing that box to 224x224 with each kernel of this CPU. The rows alternate
// on each image, and the median of an image's rounds counts. Only the ratios are meaningful. usage:
// bench_images FOLDER...

#include "base/clock.hpp"
#include "base/statistics.hpp"
#include "data/core/registry.hpp"
#include "data/image/codec/decoder.hpp"
#include "data/image/resize.hpp"
#include "spec/options/transform.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;

namespace {

constexpr int kRounds = 21;
constexpr std::int64_t kSize = 224;

struct Sample {
  std::vector<std::byte> file;
  ImageShape shape;
  Box box;
  std::vector<std::uint8_t> pixels;  // the pixels of the box
};

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(stream),
                               std::istreambuf_iterator<char>()};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<Sample> samples_below(int count, char** folders) {
  spec::transform::RandomResizedCrop options;
  options.size.values = {kSize};
  const auto transform = builtin_catalog().transforms.at("random_resized_crop")(
      config::make_stage("transform", "random_resized_crop", options));
  const auto& crop = dynamic_cast<const CropTransform&>(*transform);
  ImageDecoder decoder;
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folders[i])) {
      if (!entry.is_regular_file()) continue;
      Sample& sample = samples.emplace_back();
      sample.file = bytes_of(entry.path());
      sample.shape = decoder.open(sample.file);
      CounterRng rng(0, 0, samples.size(), 0);
      sample.box = crop.box(sample.shape, rng);
      sample.pixels.resize(static_cast<std::size_t>(sample.box.height * sample.box.width) * 3);
      decoder.decode(sample.box, Reading::whole_file, sample.pixels.data());
    }
  }
  return samples;
}

struct Row {
  std::string name;
  std::function<void(const Sample&)> work;
  double seconds = 0;  // summed over the images
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Sample> samples = samples_below(argc - 1, argv + 1);
  if (samples.empty()) {
    fmt::print("usage: bench_images FOLDER...\n");
    return 2;
  }
  ImageDecoder decoder;
  std::vector<std::uint8_t> out;
  const auto decode = [&](const Sample& sample, const Box& box, Reading reading) {
    out.resize(static_cast<std::size_t>(box.height * box.width) * 3);
    decoder.open(sample.file);
    decoder.decode(box, reading, out.data());
  };
  std::vector<Row> rows;
  rows.push_back(
      {"decode whole", [&](const Sample& sample) {
         decode(sample, {0, 0, sample.shape.height, sample.shape.width}, Reading::whole_file);
       }});
  rows.push_back(
      {"decode crop, whole file", [&](const Sample& s) { decode(s, s.box, Reading::whole_file); }});
  rows.push_back({"decode crop, needed part",
                  [&](const Sample& s) { decode(s, s.box, Reading::needed_part); }});
  for (const ResizeKernels& kernels : resize_kernels()) {
    rows.push_back(
        {std::string("resize crop, ") + kernels.name, [&](const Sample& sample) {
           out.resize(kSize * kSize * 3);
           const ImageView box(sample.pixels.data(), {sample.box.height, sample.box.width, 3});
           const ResizePlan plan{ResizeAxis::whole(sample.box.height, kSize),
                                 ResizeAxis::whole(sample.box.width, kSize)};
           resize(box, plan, out.data(), kernels);
         }});
  }
  for (const Sample& sample : samples) {
    std::vector<std::vector<double>> seconds(rows.size());
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const double start = steady_clock().now();
        rows[i].work(sample);
        seconds[i].push_back(steady_clock().now() - start);
      }
    }
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seconds += median(seconds[i]);
  }
  fmt::print("{:<26} {:>12} {:>10} {:>18}\n", "work", "images/s", "us/image", "of decode whole");
  const double whole = rows.front().seconds;
  const auto count = static_cast<double>(samples.size());
  for (const Row& row : rows) {
    fmt::print("{:<26} {:>12.0f} {:>10.1f} {:>18.2f}\n", row.name, count / row.seconds,
               1e6 * row.seconds / count, whole / row.seconds);
  }
  return 0;
}
