// A plugin of Slurm (SPANK) with one option for sbatch, salloc and srun:
//
//   sbatch --flyball=elastic,kind=bert,iterations=5000,min=1,max=8 job.sh
//
// It checks the values and publishes them as the job's comment, where `flyball cluster run` finds them:
// "flyball:elastic,kind=bert,iterations=5000,min=1,max=8". In the job it sets FLYBALL_CLUSTER, the address to which
// flyball.elastic reports, to what plugstack.conf says: cluster=HOST:PORT or cluster=unix:PATH.
//
// SPANK has no call that sets a comment. Slurm's commands keep their options in an object `opt`, which is handed on by
// name to slurm_option_set, as plugins of kind cli_filter do it (Slurm 20.11 and later). Where either is missing, the
// job is refused, rather than submitted as one that nobody grows.
//
// Runs in Slurm's processes: no exception leaves it, and it keeps no thread and no file.
#include <dlfcn.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

extern "C" {
#include <slurm/spank.h>

// NOLINTBEGIN(readability-identifier-naming): Slurm's names
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(flyball, 1)
// NOLINTEND(readability-identifier-naming)
}

namespace {

constexpr std::int64_t kMostIterations = 1'000'000'000'000;
constexpr std::int64_t kMostGpus = 65'536;
constexpr std::size_t kLongestKind = 64;

std::string published;  // the comment; empty: the option was not given
std::string cluster;    // address of the controller; empty: plugstack.conf has none

// What is wrong with a value, in words; empty: nothing.
using Problem = std::string;

struct Elastic {
  std::string_view kind;
  std::int64_t iterations = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

Problem read_number(std::string_view name, std::string_view text, std::int64_t most, std::int64_t& value) {
  if (value != 0) return std::string(name) + " is given twice";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= most) return {};
  return std::string(name) + " is " + quoted(text) + ", and has to be a whole number from 1 to " + std::to_string(most);
}

Problem read_kind(std::string_view text, std::string_view& kind) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (!kind.empty()) return "kind is given twice";
  kind = text;
  if (!text.empty() && text.size() <= kLongestKind && text.find_first_not_of(kAllowed) == std::string_view::npos) {
    return {};
  }
  return "kind is " + quoted(text) + ", and has to be 1 to " + std::to_string(kLongestKind) +
         " letters, digits, '.', '_' and '-'";
}

Problem read_field(std::string_view field, Elastic& job) {
  const std::size_t equals = field.find('=');
  const std::string_view name = field.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : field.substr(equals + 1);
  if (name == "kind") return read_kind(value, job.kind);
  if (name == "iterations") return read_number(name, value, kMostIterations, job.iterations);
  if (name == "min") return read_number(name, value, kMostGpus, job.least);
  if (name == "max") return read_number(name, value, kMostGpus, job.most);
  return "there is no " + quoted(name) + "; there are kind, iterations, min and max";
}

// Reads "elastic,kind=NAME,iterations=N,min=A,max=B", in any order, min being 1 where it is missing.
Problem read_option(std::string_view text, Elastic& job) {
  std::size_t comma = text.find(',');
  if (text.substr(0, comma) != "elastic") return "it has to begin with \"elastic\", the only kind of job there is";
  while (comma != std::string_view::npos) {
    text = text.substr(comma + 1);
    comma = text.find(',');
    if (Problem problem = read_field(text.substr(0, comma), job); !problem.empty()) return problem;
  }
  for (const auto& [name, missing] :
       {std::pair{"kind", job.kind.empty()}, {"iterations", job.iterations == 0}, {"max", job.most == 0}}) {
    if (missing) return std::string(name) + " is missing; write elastic,kind=NAME,iterations=N,min=GPUS,max=GPUS";
  }
  if (job.least == 0) job.least = 1;
  if (job.least > job.most) {
    return "min is " + std::to_string(job.least) + ", which is more than max, " + std::to_string(job.most);
  }
  return {};
}

int take_option(int /*number*/, const char* text, int /*remote*/) {
  try {
    Elastic job;
    if (const Problem problem = read_option(text, job); !problem.empty()) {
      slurm_error("--flyball=%s: %s", text, problem.c_str());
      return -1;
    }
    published = "flyball:elastic,kind=" + std::string(job.kind) + ",iterations=" + std::to_string(job.iterations) +
                ",min=" + std::to_string(job.least) + ",max=" + std::to_string(job.most);
    return 0;
  } catch (const std::exception& error) {
    slurm_error("--flyball: %s", error.what());
    return -1;
  }
}

template <class Function>
Function* function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// Sets the comment in the options of the command that runs. 0: done.
int publish() {
  void* options = dlsym(RTLD_DEFAULT, "opt");
  auto* is_set = function<bool(void*, const char*)>("slurm_option_isset");
  auto* set = function<int(void*, const char*, const char*, bool)>("slurm_option_set");
  if (options == nullptr || is_set == nullptr || set == nullptr) {
    slurm_error(
        "--flyball: this Slurm lets no plugin set a comment; submit with: flyball cluster submit, or with "
        "--comment=\"%s\" in place of --flyball",
        published.c_str());
    return -1;
  }
  if (is_set(options, "comment")) {
    slurm_error("--flyball and --comment: a job's comment is where its --flyball stands; leave --comment out");
    return -1;
  }
  set(options, "comment", published.c_str(), false);  // what it returns differs from version to version
  if (!is_set(options, "comment")) {
    slurm_error("--flyball: the job's comment could not be set");
    return -1;
  }
  return 0;
}

spank_option* the_option() {
  static char name[] = "flyball";                                           // NOLINT: Slurm's types
  static char info[] = "elastic,kind=NAME,iterations=N,min=GPUS,max=GPUS";  // NOLINT
  static char usage[] = "let Flyball grow and shrink the job, which reports by flyball.elastic";  // NOLINT
  static spank_option option{name, info, usage, 1, 0, take_option};
  return &option;
}

}  // namespace

extern "C" {

// The arguments are those of plugstack.conf.
int slurm_spank_init(spank_t spank, int count, char** arguments) {
  for (int i = 0; i < count; ++i) {
    if (std::strncmp(arguments[i], "cluster=", 8) == 0) {
      try {
        cluster = arguments[i] + 8;
      } catch (const std::exception& error) {
        slurm_error("flyball: %s", error.what());
        return -1;
      }
    } else {
      slurm_error("flyball in plugstack.conf: there is no argument \"%s\"; there is cluster=ADDRESS", arguments[i]);
      return -1;
    }
  }
  // A job's environment has its option, for its steps; another job that it submits has one only if it is given one.
  if (spank_context() == S_CTX_ALLOCATOR) {
    for (const char* name :
         {"_SLURM_SPANK_OPTION_flyball_flyball", "SLURM_SPANK__SLURM_SPANK_OPTION_flyball_flyball"}) {
      unsetenv(name);
    }
  }
  return spank_option_register(spank, the_option()) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_init_post_opt(spank_t /*spank*/, int /*count*/, char** /*arguments*/) {
  if (published.empty()) return 0;
  const spank_context_t context = spank_context();
  if (context != S_CTX_ALLOCATOR && context != S_CTX_LOCAL) return 0;
  // A step of a job that has its comment.
  if (context == S_CTX_LOCAL && std::getenv("SLURM_JOB_ID") != nullptr) return 0;
  return publish();
}

int slurm_spank_task_init(spank_t spank, int /*count*/, char** /*arguments*/) {
  if (!published.empty() && !cluster.empty()) spank_setenv(spank, "FLYBALL_CLUSTER", cluster.c_str(), 0);
  return 0;
}

}  // extern "C"
