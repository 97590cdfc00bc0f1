// flyball._native.ElasticJob: client/elastic_job.h for python/flyball/elastic_job.py, which holds the interface that
// people use.
#include "elastic.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "client/elastic_job.h"

namespace nb = nanobind;

namespace flyball {
namespace {

// One ElasticJob, which a forked child must not touch: its thread has stayed with the parent. None once it is closed.
class OwnElasticJob {
 public:
  explicit OwnElasticJob(int gpus) : process_(getpid()) {
    ElasticJob::Options options = ElasticJob::from_environment(gpus);
    options.notice = [this](const std::string& words) { notices_.push_back(words); };
    job_ = std::make_unique<ElasticJob>(std::move(options));
  }
  OwnElasticJob(const OwnElasticJob&) = delete;
  OwnElasticJob& operator=(const OwnElasticJob&) = delete;
  ~OwnElasticJob() { close(); }

  void close() {
    if (getpid() == process_) {
      job_.reset();
    } else {
      static_cast<void>(job_.release());
    }
  }

  // (whether to stop, the nodes with which to go on instead, what has to be said)
  std::tuple<bool, std::vector<std::string>, std::vector<std::string>> report(std::int64_t iteration,
                                                                              std::int64_t iterations, double step_s) {
    check();
    const bool stop = job_->report(iteration, iterations, Seconds(step_s));
    return {stop, job_->keeps(), std::exchange(notices_, {})};
  }

  std::vector<std::string> go_on(int gpus) {
    check();
    job_->go_on(gpus);
    return std::exchange(notices_, {});
  }

 private:
  void check() const {
    if (!job_) throw Error("this elastic job is closed");
    if (getpid() != process_) throw Error("this elastic job belongs to the process that forked");
  }

  pid_t process_;
  std::vector<std::string> notices_;
  std::unique_ptr<ElasticJob> job_;
};

}  // namespace

void add_elastic(nb::module_& module) {
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<OwnElasticJob>(module, "ElasticJob")
      .def(nb::init<int>(), nb::arg("gpus"), released)
      .def("report", &OwnElasticJob::report, nb::arg("iteration"), nb::arg("iterations"), nb::arg("step_s"), released)
      .def("go_on", &OwnElasticJob::go_on, nb::arg("gpus"), released)
      .def("close", &OwnElasticJob::close, released);
}

}  // namespace flyball
