#include "study/predict/worst_samples.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/pipeline.hpp"
#include "data/image/codec/png.hpp"
#include "data/loader/loader.hpp"
#include "report/record/worst_predictions.hpp"
#include "spec/experiment/job.hpp"
#include "study/preflight/experiment_checks.hpp"

#include <fmt/format.h>

namespace trainctl::study {
namespace {

constexpr std::int64_t kLongestSide = 128;  // in pixels, of a picture on the page

fs::path predictions_of(const report::RunFiles& run, const WorstRequest& request) {
  const fs::path file =
      request.predictions.empty() ? run.folder / "predictions.csv" : fs::path(request.predictions);
  const std::string folder = shell_word(run.folder.string());
  ENSURE(config, is_file(file),
         "{} does not exist\nhint: run trainctl predict {} --checkpoint best --split {} --out {}",
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

/// Returns the pictures of the samples in order; empty if their images do not have 1 or 3 channels.
std::vector<std::string> pictures_of(const std::vector<report::Mistake>& mistakes,
                                     data::Pipeline pipeline) {
  const data::Layout& whole = pipeline.dataset->layout();
  if (mistakes.empty() || data::find_field(whole, "image") == whole.size()) return {};
  std::vector<std::int64_t> indices;
  for (const report::Mistake& mistake : mistakes) indices.push_back(mistake.index);
  pipeline.dataset = data::subset(std::move(pipeline.dataset), std::move(indices));
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

/// Returns the properties of the samples without their pictures.
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

/// Warns only if samples were requested; otherwise only the class names are missing.
void warn_missing_images(const Error& error, const WorstRequest& request,
                         const LoadProblems& problems) {
  if (request.count > 0)
    problems.warn(fmt::format("the report shows no images of the worst samples: {}", error.what()));
}

/// Opens the data set and its transforms; nullopt if they no longer exist.
std::optional<data::Pipeline> open_pipeline(const report::RunFiles& run,
                                            const WorstRequest& request,
                                            const LoadProblems& problems) {
  try {
    TrainingSamples ignored;
    const spec::Loaded loaded =
        spec::load_experiment((run.folder / "config.resolved.yaml").string(), {},
                              problems.diagnostics, checks_for(Purpose::loading, ignored));
    return data::build_pipeline(spec::evaluated_split(loaded.experiment, request.split));
  } catch (const Error& error) {
    problems.diagnostics = {};
    warn_missing_images(error, request, problems);
    return std::nullopt;
  }
}

/// Returns the labels; empty if the samples have none or they cannot be read.
std::vector<std::int64_t> labels_of(const data::Dataset& dataset,
                                    const std::vector<std::int64_t>& indices) {
  const data::Layout& layout = dataset.layout();
  const std::size_t field = data::find_field(layout, "label");
  if (field == layout.size() || layout[field] != data::Field{"label", data::Dtype::i64, {}})
    return {};
  std::vector<std::int64_t> labels(indices.size());
  std::vector<std::span<std::byte>> rows(layout.size());
  rows[field] = std::as_writable_bytes(std::span(labels));
  try {
    dataset.fill(indices, rows);
  } catch (const Error&) {
    return {};
  }
  return labels;
}

/// Returns a text such as "'b.png' of class 2".
std::string sample_text(const std::string& name, std::int64_t label) {
  const std::string number = fmt::format("class {}", label);
  return name.empty() ? number : fmt::format("'{}' of {}", printable(name), number);
}

/// Returns the name as 'predict' writes it, with invalid UTF-8 replaced.
std::string name_as_written(const std::string& name) {
  return Json::parse(to_line(Json(name))).get<std::string>();
}

/// Throws if the predictions are of another split, which would be shown with the wrong pictures.
void check_split(const std::vector<report::Mistake>& mistakes, const data::Dataset& dataset,
                 const WorstRequest& request) {
  constexpr const char* kHint = "hint: set --split to the split that 'trainctl predict' used";
  std::vector<std::int64_t> indices;
  for (const report::Mistake& mistake : mistakes) {
    ENSURE(config, mistake.index < dataset.size(),
           "the predictions contain sample {}, but split '{}' has only {} samples\n{}",
           with_thousands(mistake.index), printable(request.split), with_thousands(dataset.size()),
           kHint);
    indices.push_back(mistake.index);
  }
  const std::vector<std::int64_t> labels = labels_of(dataset, indices);
  const data::ImageStore* images = dataset.images();
  for (std::size_t i = 0; i < mistakes.size(); ++i) {
    const report::Mistake& mistake = mistakes[i];
    const std::string name = images == nullptr || mistake.name.empty()
                                 ? mistake.name
                                 : name_as_written(images->name(mistake.index));
    const std::int64_t label = labels.empty() ? mistake.label : labels[i];
    ENSURE(config, name == mistake.name && label == mistake.label,
           "sample {} is {} in split '{}', but {} in the predictions\n{}",
           with_thousands(mistake.index), sample_text(name, label), printable(request.split),
           sample_text(mistake.name, mistake.label), kHint);
  }
}

}  // namespace

report::RunPageExtras run_page_extras(const report::RunFiles& run, const WorstRequest& request,
                                      const LoadProblems& problems) {
  constexpr std::uint64_t kMostCsvBytes = std::uint64_t{2} << 30;
  report::RunPageExtras extras;
  std::vector<report::Mistake> mistakes;
  if (request.count > 0) {
    const fs::path file = predictions_of(run, request);
    mistakes = in_context(printable(file.string()), [&] {
      return report::worst_predictions(read_file(file, kMostCsvBytes, ReadFailure::config),
                                       request.count);
    });
    extras.worst_source = fmt::format("{}, split {}", file.filename().string(), request.split);
  }
  if (mistakes.empty() && run.tables.empty() && run.samples.empty()) return extras;
  std::optional<data::Pipeline> pipeline = open_pipeline(run, request, problems);
  if (pipeline) {
    check_split(mistakes, *pipeline->dataset, request);
    extras.class_names = pipeline->dataset->class_names();
  }
  extras.worst = samples_of(mistakes, extras.class_names);
  if (!pipeline) return extras;
  try {
    const std::vector<std::string> pictures = pictures_of(mistakes, std::move(*pipeline));
    for (std::size_t i = 0; i < pictures.size(); ++i) extras.worst[i].png = pictures[i];
  } catch (const Error& error) {
    warn_missing_images(error, request, problems);
  }
  return extras;
}

}  // namespace trainctl::study
