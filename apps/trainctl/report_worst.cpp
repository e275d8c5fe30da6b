#include "report_worst.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "config_arguments.hpp"
#include "context.hpp"
#include "data/build.hpp"
#include "data/chosen.hpp"
#include "data/loader.hpp"
#include "data/write_png.hpp"
#include "report/worst.hpp"
#include "spec/task.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

constexpr std::int64_t kLongestSide = 128;  // pixels of a picture on the page

fs::path predictions_of(const report::RunFiles& run, const WorstRequest& request) {
  const fs::path file =
      request.predictions.empty() ? run.folder / "predictions.csv" : fs::path(request.predictions);
  std::error_code ignored;
  const std::string folder = shell_word(run.folder.string());
  ENSURE(config, fs::is_regular_file(file, ignored),
         "there is no {}; make it by: trainctl predict {} --checkpoint best --split {} --out {}",
         printable(file.string()), folder, shell_word(request.split),
         shell_word((run.folder / "predictions.csv").string()));
  return file;
}

std::string class_name(std::int64_t number, const std::vector<std::string>& names) {
  const auto at = static_cast<std::size_t>(number);
  return at < names.size() ? names[at] : std::to_string(number);
}

std::string picture(const data::ImageView& image) {
  data::ImageShape shape;
  const std::vector<std::uint8_t> pixels = data::shrunk(image, kLongestSide, shape);
  return data::png_of({pixels.data(), shape});
}

/// The pictures of the samples in their order; none where they have no image of 1 or 3 channels.
std::vector<std::string> pictures_of(const std::vector<report::Mistake>& mistakes,
                                     data::Pipeline pipeline) {
  const data::Layout& whole = pipeline.dataset->layout();
  if (mistakes.empty() || data::find_field(whole, "image") == whole.size()) return {};
  std::vector<std::int64_t> indices;
  for (const report::Mistake& mistake : mistakes) indices.push_back(mistake.index);
  pipeline.dataset = data::chosen(std::move(pipeline.dataset), std::move(indices));
  data::LoaderOptions options;
  options.batch_size = std::ssize(mistakes);
  options.order = data::Order::sequential;
  options.read_ahead = 0;
  data::Loader loader(std::move(pipeline), options);
  loader.start_epoch(0);
  const data::Batch& batch = *loader.next();
  const std::size_t field = data::find_field(loader.layout(), "image");
  const data::ImageShape shape = data::image_shape(loader.layout()[field]);
  if (shape.channels != 1 && shape.channels != 3) return {};
  std::vector<std::string> files;
  for (std::size_t row = 0; row < mistakes.size(); ++row) {
    const auto* pixels =
        reinterpret_cast<const std::uint8_t*>(batch.fields[field].data()) + row * shape.bytes();
    files.push_back(picture(data::ImageView(pixels, shape)));
  }
  return files;
}

data::Pipeline pipeline_of(const report::RunFiles& run, const WorstRequest& request,
                           Context& context) {
  const ConfigArguments arguments{.file = (run.folder / "config.resolved.yaml").string(),
                                  .overrides = {}};
  const spec::Loaded loaded = load_checked(arguments, context, Purpose::loading);
  return data::build_pipeline(spec::evaluated_split(loaded.experiment, request.split));
}

/// What is known of the samples without their pictures.
std::vector<report::WorstSample> samples_of(const std::vector<report::Mistake>& mistakes,
                                            const std::vector<std::string>& names) {
  std::vector<report::WorstSample> samples;
  for (const report::Mistake& mistake : mistakes)
    samples.push_back(
        {.name = mistake.name.empty() ? fmt::format("sample {}", mistake.index) : mistake.name,
         .label = class_name(mistake.label, names),
         .predicted = class_name(mistake.predicted, names),
         .probability = mistake.probability,
         .loss = mistake.loss,
         .png = {}});
  return samples;
}

}  // namespace

report::RunPageExtras worst_of(const report::RunFiles& run, const WorstRequest& request,
                               Context& context) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;
  report::RunPageExtras extras;
  if (request.count == 0) return extras;
  const fs::path file = predictions_of(run, request);
  const std::vector<report::Mistake> mistakes = in_context(printable(file.string()), [&] {
    return report::worst_predictions(read_file(file, kMostBytes, ReadFailure::config),
                                     request.count);
  });
  extras.worst_source = fmt::format("{}, split {}", file.filename().string(), request.split);
  try {
    data::Pipeline pipeline = pipeline_of(run, request, context);
    extras.class_names = pipeline.dataset->class_names();
    extras.worst = samples_of(mistakes, extras.class_names);
    const std::vector<std::string> pictures = pictures_of(mistakes, std::move(pipeline));
    for (std::size_t i = 0; i < pictures.size(); ++i) extras.worst[i].png = pictures[i];
  } catch (const Error& error) {
    context.diagnostics = {};
    extras.worst = samples_of(mistakes, extras.class_names);
    if (!context.quiet && !context.json)
      put(stderr,
          fmt::format("warning: the samples are shown without their pictures: {}\n", error.what()));
  }
  return extras;
}

}  // namespace trainctl::app
