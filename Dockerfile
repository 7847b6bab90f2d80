# A server of trained runs. From this folder:
#
#   docker build -t pellucid .
#   docker run --rm -p 127.0.0.1:5000:5000 -v ./runs:/runs:ro -v pellucid-cache:/var/cache/pellucid pellucid /runs/demo
#
# docs/deployment.md says more.

FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/pellucid
ENV PATH=/opt/pellucid/bin:$PATH PIP_CONSTRAINT=/source/constraints.txt PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY constraints.txt ./
# PyTorch for processors alone: what others carry for GPUs is many times as large.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --index-url "$TORCH_INDEX" torch
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src src
# Kernels for all kinds of processors of this family, so that the image needs no compiler.
RUN HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 pip install '.[serve]'

FROM python:3.11-slim
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin pellucid \
    && install --directory --owner pellucid --group pellucid --mode 0700 /var/cache/pellucid
COPY --from=build /opt/pellucid /opt/pellucid
ENV PATH=/opt/pellucid/bin:$PATH PELLUCID_CACHE=/var/cache/pellucid PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER pellucid
WORKDIR /runs
VOLUME /var/cache/pellucid
EXPOSE 5000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
ENTRYPOINT ["pellucid", "serve", "--host", "0.0.0.0", "--port", "5000"]
CMD ["/runs/demo"]
