# Driver and executors, on Kubernetes too: make dist && docker build -t cerebro-spark . (docs/deployment.md)
ARG SPARK_IMAGE=apache/spark:4.0.1-scala2.13-java17-ubuntu
FROM ${SPARK_IMAGE} AS spark

FROM python:3.11-slim-bookworm
# g++ builds the native code of compiled forests, once per node.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless g++ procps tini \
    && rm -rf /var/lib/apt/lists/*

# Spark and its Python come from Spark's own image, so that both are of one version.
COPY --from=spark /opt/spark /opt/spark
COPY --from=spark /opt/entrypoint.sh /opt/entrypoint.sh
RUN python -c "import glob, sysconfig; print('/opt/spark/python', *glob.glob('/opt/spark/python/lib/py4j-*-src.zip'), sep='\n', \
    file=open(sysconfig.get_path('purelib') + '/spark.pth', 'w'))"

# The CPU build of torch; for GPUs: --build-arg TORCH_INDEX=
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt dist/*.whl /tmp/
RUN pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c /tmp/constraints.txt \
    "$(echo /tmp/cerebro_spark-*.whl)[torch,explain]" \
    && rm /tmp/*.whl /tmp/constraints.txt

RUN useradd --create-home --uid 185 spark
ENV SPARK_HOME=/opt/spark \
    PATH=/opt/spark/bin:$PATH \
    PYSPARK_PYTHON=python3 \
    CEREBRO_SPARK_CACHE=/tmp/cerebro-spark \
    OMP_NUM_THREADS=1
USER 185
WORKDIR /home/spark
ENTRYPOINT ["/opt/entrypoint.sh"]
CMD ["vista", "--help"]
