#include "cli/verb.hpp"
#include "data/cache/image_cache.hpp"
#include "data/core/pipeline.hpp"
#include "data/image/codec/png.hpp"
#include "data/inspect/contact_sheet.hpp"
#include "data/loader/batch_assembler.hpp"
#include "data/loader/loader.hpp"

#include <cstring>

namespace trainctl::app {
namespace {

struct ShowArguments {
  ConfigArguments config;
  std::string out;
  std::int64_t samples = 16;
  std::int64_t epoch = 1;
  std::string split = "train";
};

std::optional<std::int64_t> label_of(const data::Batch& batch, const data::Layout& layout,
                                     std::size_t row) {
  for (std::size_t field = 0; field < layout.size(); ++field) {
    if (layout[field] != data::Field{"label", data::Dtype::i64, {}}) continue;
    std::int64_t label = 0;
    std::memcpy(&label, batch.fields[field].data() + row * sizeof label, sizeof label);
    return label;
  }
  return std::nullopt;
}

struct Shown {
  std::vector<data::SheetImage> images;
  std::vector<std::optional<std::int64_t>> labels;
  std::vector<std::string> class_names;  // empty if the classes only have numbers
  std::vector<data::SkippedSample> skipped;
};

std::string caption_of(const std::optional<std::int64_t>& label,
                       const std::vector<std::string>& names) {
  if (!label || *label < 0) return "";
  const auto number = static_cast<std::size_t>(*label);
  return number < names.size() ? names[number] : std::to_string(*label);
}

std::size_t image_of(const data::Layout& layout) {
  const std::size_t image = data::find_field(layout, "image");
  ENSURE(config, image < layout.size(), "the samples have no image to show");
  return image;
}

// Checks the size of the sheet before anything is loaded.
void check_sheet(const data::Pipeline& pipeline, std::int64_t samples) {
  const data::Layout layout = data::transformed(pipeline.dataset->layout(), pipeline.transforms);
  const data::ImageShape shape = data::image_shape(layout[image_of(layout)]);
  ENSURE(config, shape.channels == 1 || shape.channels == 3,
         "the images have {} channels; images of 1 (gray) or 3 (RGB) can be shown", shape.channels);
  (void)data::sheet_shape(std::min(samples, pipeline.dataset->size()), shape);
}

void take(const data::Batch& batch, const data::Layout& layout, Shown& shown) {
  const std::size_t image = image_of(layout);
  const data::ImageShape shape = data::image_shape(layout[image]);
  for (std::size_t row = 0; row < static_cast<std::size_t>(batch.valid); ++row) {
    const auto* pixels =
        reinterpret_cast<const std::uint8_t*>(batch.fields[image].data()) + row * shape.bytes();
    shown.labels.push_back(label_of(batch, layout, row));
    shown.images.push_back(
        {data::ImageView(pixels, shape), caption_of(shown.labels.back(), shown.class_names)});
  }
}

// Uses the samples and random numbers of a run: the first ones of the epoch.
data::LoaderOptions options_for(const ShowArguments& arguments,
                                const spec::Experiment& experiment) {
  data::LoaderOptions options = data::loader_options(
      experiment, arguments.split == "train" ? data::Role::train : data::Role::evaluate, {});
  options.batch_size = arguments.samples;
  options.num_workers = 0;
  options.last_batch = data::LastBatch::keep;
  options.limit_batches = 1;
  return options;
}

Json document(const ShowArguments& arguments, const Shown& shown) {
  Json labels = Json::array();
  for (const auto& label : shown.labels) labels.push_back(label ? Json(*label) : Json(nullptr));
  const data::ImageShape& shape = shown.images.front().image.shape;
  return {{"schema", "trainctl.data_show/2"},
          {"file", arguments.out},
          {"split", arguments.split},
          {"epoch", arguments.epoch},
          {"image", {shape.height, shape.width, shape.channels}},
          {"labels", labels},
          {"class_names", shown.class_names},
          {"skipped", skipped_json(shown.skipped)}};
}

int show(const ShowArguments& arguments, Context& context) {
  const spec::Loaded loaded = load_checked(arguments.config, context, study::Purpose::loading);
  const spec::DataSplit& split = spec::split_called(loaded.experiment, arguments.split);
  data::Pipeline pipeline = data::build_pipeline(split);
  check_sheet(pipeline, arguments.samples);
  Shown shown{.class_names = pipeline.dataset->class_names()};
  data::CacheBudget cache(loaded.experiment.dataset.cache, 1);
  data::Loader loader(data::with_cache(std::move(pipeline), cache, {}, data::CacheFill::on_use),
                      options_for(arguments, loaded.experiment));
  loader.start_epoch(arguments.epoch - 1);
  take(*loader.next(), loader.layout(), shown);
  shown.skipped = loader.skipped();
  data::write_png(arguments.out, data::contact_sheet(shown.images).view());
  if (context.json) {
    print_json(document(arguments, shown));
  } else if (!context.quiet) {
    const std::size_t count = shown.images.size();
    print(fmt::format("{}: {} of epoch {}", printable(arguments.out),
                      count == 1 ? "1 sample" : fmt::format("{} samples", count), arguments.epoch));
  }
  print_skipped(context, shown.skipped, "replaced by other samples");
  return 0;
}

}  // namespace

void add_data_show(CLI::App& data, Context& context) {
  const auto [verb, arguments] =
      add_verb(data, context,
               {"show", "write a PNG image of samples after their transforms", kConfigGroup}, show);
  add_config_arguments(verb, arguments.config, context, Builtin::photographs);
  add_options(
      verb, {{"--out", arguments.out, "FILE", "required: PNG file to write"},
             {"--samples", arguments.samples, "N",
              "number of samples, from the start of the epoch (default: 16)", within(1, 1024)},
             {"--epoch", arguments.epoch, "E",
              "epoch that sets the order and random numbers (default: 1)", within(1, 1'000'000)}});
  verb.get_option("--out")->required();
  add_split_argument(verb, arguments.split);
  verb.footer("The images are shown before 'normalize'. The class is written below each image.");
}

}  // namespace trainctl::app
