#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "cli/run_paths.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/pipeline.hpp"
#include "data/image/codec/png.hpp"
#include "data/loader/loader.hpp"
#include "report/compare/comparison.hpp"
#include "report/html/run_page.hpp"
#include "report/html/study_pages.hpp"
#include "report/record/run_files.hpp"
#include "report/record/worst_predictions.hpp"
#include "spec/experiment/task.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

/// The samples that a page is to show.
struct WorstRequest {
  std::size_t count = 0;    // 0: none
  std::string predictions;  // empty: predictions.csv of the run folder
  std::string split = "val";
};

/// The names of the classes where the page shows classes, and the worst samples of a file of
/// predictions with their pictures, as the model sees them before `normalize`. Where the data is
/// not there any more they come without, and a warning says so. Throws Error(config) where there
/// are no predictions, or they are of another split.
report::RunPageExtras extras_of(const report::RunFiles& run, const WorstRequest& request,
                                Context& context);

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

/// Where nobody asked for samples, only the names of classes are missing.
void warn_of(const Error& error, const WorstRequest& request, const Context& context) {
  if (request.count > 0 && !context.quiet && !context.json)
    put(stderr,
        fmt::format("warning: the samples are shown without their pictures: {}\n", error.what()));
}

data::Pipeline pipeline_of(const report::RunFiles& run, const WorstRequest& request,
                           Context& context) {
  const ConfigArguments arguments{.file = (run.folder / "config.resolved.yaml").string(),
                                  .overrides = {}};
  const spec::Loaded loaded = load_checked(arguments, context, study::Purpose::loading);
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

/// The data set and its transforms; nothing where they are not there any more.
std::optional<data::Pipeline> opened(const report::RunFiles& run, const WorstRequest& request,
                                     Context& context) {
  try {
    return pipeline_of(run, request, context);
  } catch (const Error& error) {
    context.diagnostics = {};
    warn_of(error, request, context);
    return std::nullopt;
  }
}

/// Empty where the samples have none, or none that can be read.
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

/// "'b.png' of class 2"
std::string told(const std::string& name, std::int64_t label) {
  const std::string number = fmt::format("class {}", label);
  return name.empty() ? number : fmt::format("'{}' of {}", printable(name), number);
}

/// As 'predict' writes it: what is no UTF-8 is replaced.
std::string written(const std::string& name) {
  return Json::parse(to_line(Json(name))).get<std::string>();
}

/// Predictions of another split would be shown with the wrong pictures.
void check_split(const std::vector<report::Mistake>& mistakes, const data::Dataset& dataset,
                 const WorstRequest& request) {
  constexpr const char* kWhatToDo =
      "the predictions are of other samples: write --split as 'trainctl predict' was told";
  std::vector<std::int64_t> indices;
  for (const report::Mistake& mistake : mistakes) {
    ENSURE(config, mistake.index < dataset.size(),
           "split '{}' has {} samples, and no sample {}; {}", printable(request.split),
           dataset.size(), mistake.index, kWhatToDo);
    indices.push_back(mistake.index);
  }
  const std::vector<std::int64_t> labels = labels_of(dataset, indices);
  const data::ImageStore* images = dataset.images();
  for (std::size_t i = 0; i < mistakes.size(); ++i) {
    const report::Mistake& mistake = mistakes[i];
    const std::string name = images == nullptr || mistake.name.empty()
                                 ? mistake.name
                                 : written(images->name(mistake.index));
    const std::int64_t label = labels.empty() ? mistake.label : labels[i];
    ENSURE(config, name == mistake.name && label == mistake.label,
           "sample {} of split '{}' is {}, and of the predictions {}; {}", mistake.index,
           printable(request.split), told(name, label), told(mistake.name, mistake.label),
           kWhatToDo);
  }
}

void add_pictures(report::RunPageExtras& extras, const std::vector<report::Mistake>& mistakes,
                  data::Pipeline pipeline, const std::pair<const WorstRequest&, Context&>& asked) {
  try {
    const std::vector<std::string> pictures = pictures_of(mistakes, std::move(pipeline));
    for (std::size_t i = 0; i < pictures.size(); ++i) extras.worst[i].png = pictures[i];
  } catch (const Error& error) {
    warn_of(error, asked.first, asked.second);
  }
}

report::RunPageExtras extras_of(const report::RunFiles& run, const WorstRequest& request,
                                Context& context) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;
  report::RunPageExtras extras;
  std::vector<report::Mistake> mistakes;
  if (request.count > 0) {
    const fs::path file = predictions_of(run, request);
    mistakes = in_context(printable(file.string()), [&] {
      return report::worst_predictions(read_file(file, kMostBytes, ReadFailure::config),
                                       request.count);
    });
    extras.worst_source = fmt::format("{}, split {}", file.filename().string(), request.split);
  }
  if (mistakes.empty() && run.tables.empty()) return extras;
  std::optional<data::Pipeline> pipeline = opened(run, request, context);
  if (pipeline) {
    check_split(mistakes, *pipeline->dataset, request);
    extras.class_names = pipeline->dataset->class_names();
  }
  extras.worst = samples_of(mistakes, extras.class_names);
  if (pipeline) add_pictures(extras, mistakes, std::move(*pipeline), {request, context});
  return extras;
}

struct ReportFlags {
  std::vector<std::string> words;
  std::string out;
  WorstRequest worst;
};

/// A page, what it is of, and where it belongs.
struct Made {
  std::string kind;  // "run", "comparison", "bench", "sweep"
  std::string page;
  fs::path file;
  std::vector<std::string> notes;
};

constexpr std::array kSweepFiles{"sweep.json", "result.json", "results.json"};

/// The document of a sweep's folder.
std::optional<fs::path> sweep_file(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : kSweepFiles) {
    const fs::path file = folder / name;
    if (!fs::is_regular_file(file, ignored)) continue;
    try {
      if (report::schema_of(report::read_document(file)).starts_with("trainctl.sweep/"))
        return file;
    } catch (const Error&) {
      continue;  // some other file of that name: the folder may be a run's
    }
  }
  return std::nullopt;
}

Made made_of_sweep(const fs::path& file) {
  const Json sweep = report::read_document(file);
  const std::vector<report::SweptRun> runs = report::swept_runs(sweep, file.parent_path());
  const std::string title = fs::absolute(file).parent_path().filename().string();
  return {"sweep", report::sweep_page(sweep, runs, title), file.parent_path() / "report.html", {}};
}

Made made_of_file(const fs::path& file) {
  const Json document = report::read_document(file);
  const std::string schema = report::schema_of(document);
  if (schema.starts_with("trainctl.sweep/")) return made_of_sweep(file);
  ENSURE(config, schema.starts_with("trainctl.bench/"),
         "{} is a document {}: there are pages of runs, of benches (trainctl.bench/1) and of "
         "sweeps (trainctl.sweep/1)",
         printable(file.string()), printable(schema));
  return {"bench",
          report::bench_page(document, file.filename().string()),
          fs::path(file).replace_extension(".html"),
          {}};
}

Made made_of_run(const ReportFlags& flags, Context& context) {
  const report::RunFiles run = report::read_run(flags.words.front());
  const report::RunPageExtras extras = extras_of(run, flags.worst, context);
  return {"run", report::run_page(run, extras), run.folder / "report.html", run.notes};
}

Made made_of_runs(const std::vector<std::string>& words) {
  report::Compared compared;
  Made made{.kind = "comparison", .page = {}, .file = "comparison.html", .notes = {}};
  const std::vector<std::string> labels = report::short_labels(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::vector<report::RunFiles> runs;
    for (const std::string& folder : runs_of_word(words[i])) {
      runs.push_back(report::read_run(folder));
      for (const std::string& note : runs.back().notes) made.notes.push_back(folder + ": " + note);
    }
    compared.groups.push_back(report::group_of(labels[i], std::move(runs)));
  }
  made.page = report::comparison_page(compared);
  return made;
}

Made made_of(const ReportFlags& flags, Context& context) {
  const std::string& first = flags.words.front();
  std::error_code ignored;
  const bool is_one = flags.words.size() == 1 && fs::exists(first, ignored);
  ENSURE(config, flags.worst.count == 0 || (is_one && report::is_run_folder(first)),
         "--worst shows samples of one run: name one run folder");
  if (!is_one) return made_of_runs(flags.words);
  if (fs::is_regular_file(first, ignored)) return made_of_file(first);
  if (const auto sweep = sweep_file(first)) return made_of_sweep(*sweep);
  return made_of_run(flags, context);
}

int make_report(ReportFlags flags, Context& context) {
  for (std::string& word : flags.words) {
    if (!sweep_file(word)) word = run_word(word);
  }
  Made made = made_of(flags, context);
  if (!flags.out.empty()) made.file = flags.out;
  write_atomically(made.file, made.page);
  if (context.json) {
    print_json({{"schema", "trainctl.report/1"},
                {"kind", made.kind},
                {"file", made.file.string()},
                {"bytes", made.page.size()},
                {"notes", made.notes}});
    return 0;
  }
  if (!context.quiet) {
    for (const std::string& note : made.notes)
      put(stderr, fmt::format("warning: {}\n", printable(note)));
  }
  print(printable(made.file.string()));
  return 0;
}

}  // namespace

void add_report(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App& verb =
      add_verb(program, context,
               {"report", "a page of a run, of several, of a bench or a sweep", kTrainGroup},
               [flags, &context] { return make_report(*flags, context); });
  verb.add_option("runs", flags->words,
                  "runs: a folder, latest or an experiment's name; a 'bench --save' file; a sweep")
      ->type_name("PATH...")
      ->required();
  verb.add_option("--out", flags->out,
                  "the page; left out: report.html in the folder of the run or sweep, the name of "
                  "the bench with .html, or comparison.html")
      ->type_name("FILE");
  verb.add_option("--worst", flags->worst.count,
                  "show so many samples that the model is most wrong about, of --predictions")
      ->type_name("N")
      ->check(CLI::Range(1, 200).description(""));
  verb.add_option("--predictions", flags->worst.predictions,
                  "the CSV file of 'trainctl predict'; left out: predictions.csv of the run folder")
      ->type_name("FILE");
  verb.add_option("--split", flags->worst.split, "that was predicted")
      ->type_name("SPLIT")
      ->capture_default_str();
  verb.footer(
      "Nothing is trained and nothing computed: the page is made of what the runs have left.");
}

}  // namespace trainctl::app
